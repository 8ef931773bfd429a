"""Waiting in closed form: in queues and batches, for the slowest rank, for saves and failures, in the gaps of serving."""
