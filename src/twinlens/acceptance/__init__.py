"""Burn-in: the workloads of both lenses for hours, windows of a minute, judged by criteria that were written before."""
