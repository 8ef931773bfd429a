"""Return on investment: buying against renting, reserving and an API: when it pays, and what flips that."""
