"""Metrics that the server reported about itself, and whether they agree with ours."""
