"""The load generator: a client over HTTP with kernel timestamps, the player of a schedule, and dialects of servers."""
