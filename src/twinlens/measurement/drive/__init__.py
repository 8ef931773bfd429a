"""Driving an executor in real time: training steps, lockstep batches, requests under load."""
