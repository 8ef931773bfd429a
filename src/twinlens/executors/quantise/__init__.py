"""Quantised model folders for servers: made once by llm-compressor, from prompts of the workload."""
