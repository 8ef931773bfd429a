"""What is asked of an executor: lengths, arrivals, prompts, and the two kinds of workload."""
