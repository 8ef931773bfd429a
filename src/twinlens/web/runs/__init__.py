"""The room of runs: home, the explorer, a run's page with its rows, labels and notes, and packs."""
