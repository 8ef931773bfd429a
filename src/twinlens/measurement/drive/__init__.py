"""The loops that drive an executor: training steps, lockstep batches, requests under load."""
