"""State of an engine in virtual time: sequences, blocks of KV cache, ends of steps, amounts of work."""
