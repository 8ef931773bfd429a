"""Driving a burn-in: turns of its workloads, counters and digests beside them, windows written as they end."""
