"""Pure statistics over rows: quantiles, intervals, the steady segment, metrics."""
