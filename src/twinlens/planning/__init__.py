"""Planning: what fits, how fast it would be and what it costs, each figure with the arithmetic that explains it."""
