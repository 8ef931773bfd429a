"""A simulated server: it answers the OpenAI API at the pace of a simulation, on the loopback interface."""
