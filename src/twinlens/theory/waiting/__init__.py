"""Waiting in closed form: for the slowest rank, for saves and failures, for gradients, in the gaps of serving."""
