"""Tuning: the best that an executor can do within a declared bound, searched by a race and proved by fresh runs."""
