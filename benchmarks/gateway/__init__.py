"""Ours beside other gateways and a bare splice, by turns before one server that computes nothing."""

from benchmarks.gateway.run import arguments, run, write_page

__all__ = ["arguments", "run", "write_page"]
