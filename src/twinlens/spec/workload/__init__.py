"""Workloads: lengths, arrivals, prompts, and the kinds of workload."""
