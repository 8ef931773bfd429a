"""Capacity: latency, throughput, users at a target, devices with head-room, and time to train, each with its band."""
