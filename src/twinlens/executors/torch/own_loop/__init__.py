"""A loop of somebody's own on torch: hooks on its model and optimizer, and evidence of what it runs."""
