"""Facts that the measuring layer knows about a run: workload, protocol, predicted work."""
