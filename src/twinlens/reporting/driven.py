"""Runs that Twinlens drove, and those of programs that somebody else started."""

from __future__ import annotations

from twinlens.record.run import Run
from twinlens.spec.unsaid import FROM_LOG, WATCHED


def is_driven(run: Run) -> bool:
    """Whether duration, seed and repeats were Twinlens' own to decide."""
    return run.spec.executor.kind not in (WATCHED, FROM_LOG)
