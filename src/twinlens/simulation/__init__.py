"""Simulation: the same rows in virtual time, for serving and training, from theory or from a measured run."""
