"""The report: every point, what stands against it, the executor, the method and definitions, as one document."""
