"""Workloads: lengths, arrivals, prompts, and the two kinds of workload."""
