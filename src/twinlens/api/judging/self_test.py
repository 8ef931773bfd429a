"""The self-test of the diagnosis: real programs that saturate one resource each, on this machine."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

from twinlens.errors import BadInput, nearest
from twinlens.proof.carry_out import Result, carry_out
from twinlens.proof.small_server import CASES, Case
from twinlens.record.codec import encode
from twinlens.reporting.judging.self_test import why_words
from twinlens.reporting.wording.finding import with_words
from twinlens.version import __version__

Told = Callable[[int, int, str, str], None]
"""Takes the number of a case, how many there are, its name and what it does."""


def self_test(*names: str, out: str | Path | None = None, told: Told | None = None) -> tuple[Result, ...]:
    """Each case (or those named), measured and diagnosed. `out`: where their run folders stay; None: nowhere.

    Raises BadInput (TL207) for a name that no case has.
    """
    chosen = cases_named(names)
    say = told or (lambda number, total, name, phrase: None)
    kept = Path(out) if out is not None else None
    if kept is not None:
        kept.mkdir(parents=True, exist_ok=True)
    with nullcontext(str(kept)) if kept else tempfile.TemporaryDirectory(prefix="twinlens-") as folder:
        return tuple(
            _one(case, Path(folder), partial(say, number, len(chosen), case.expected))
            for number, case in enumerate(chosen, start=1)
        )


def _one(case: Case, folder: Path, say: Callable[[str], None]) -> Result:
    say("starting")
    return carry_out(case, folder, lambda phrase, share, rows: say(phrase))


def cases_named(names: Sequence[str]) -> tuple[Case, ...]:
    """The cases of these names, all without one. Raises BadInput (TL207)."""
    known = [case.expected for case in CASES]
    for name in names:
        if name not in known:
            raise BadInput(f"the self-test has no case {name!r}; {nearest(name, known)}", code="TL207")
    return tuple(case for case in CASES if not names or case.expected in names)


def self_test_json(results: Sequence[Result]) -> dict[str, Any]:
    """As plain data, for --json: each case with why, its outcome and its diagnosis in full."""
    cases = [{"why": why_words(each.case.expected)} | with_words(encode(each)) for each in results]
    return {"schema": 1, "twinlens": __version__, "self_test": cases}
