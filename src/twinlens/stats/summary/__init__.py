"""All metrics of one run, and runs grouped by operating point."""
