"""Accuracy of predictions against public measurements: parse, fit, predict what was left out, and write the table."""
