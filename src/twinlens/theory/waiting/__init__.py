"""Waiting in closed form: in queues and batches, for the slowest rank, for saves and failures, in gaps of serving."""
