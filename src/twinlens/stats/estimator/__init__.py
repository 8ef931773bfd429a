"""Estimators with intervals: means, quantiles, rates, ratios."""
