"""Predictions of step time, serving latency and training time, each with a band: a roofline with fitted constants."""
