"""The same rows under other tools' definitions and names."""
