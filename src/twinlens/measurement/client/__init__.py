"""Several client processes that play one load together."""
