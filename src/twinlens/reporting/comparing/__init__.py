"""Documents of what stands beside each other: comparisons, ledgers, histories and tables."""
