"""Real time: driving executors, probing machines, running studies."""
