"""Executors: what runs a workload, one folder per runtime, loaded only when it is named."""
