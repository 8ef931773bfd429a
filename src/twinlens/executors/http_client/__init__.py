"""The HTTP client of the load generator: one thread, one event loop, kernel timestamps."""
