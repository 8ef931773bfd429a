"""Several client processes that send one load together."""
