"""Cost: what a request, a million tokens and a month of users cost, of hardware and of energy."""
