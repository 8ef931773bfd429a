"""Engines of this process against their own makers' benchmark tools, and against what memory gives."""

from benchmarks.runtimes.run import arguments, run

__all__ = ["arguments", "run"]
