"""A model: its config, its shape, and where its weights are."""
