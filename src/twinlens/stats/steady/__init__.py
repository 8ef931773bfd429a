"""The test for a steady window, and rates within it."""
