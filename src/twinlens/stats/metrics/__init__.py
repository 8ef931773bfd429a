"""Metric definitions, and the metrics of training and of engine-level inference."""
