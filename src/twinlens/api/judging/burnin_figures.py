"""Windows and verdicts of burn-ins in a pack, worked out again from the rows and windows that it holds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import zip_longest
from pathlib import Path
from typing import Any

from twinlens.acceptance.driving.cut import windows_of
from twinlens.acceptance.driving.folder import VERDICT_FILE
from twinlens.acceptance.judge import judged
from twinlens.acceptance.window import BURNIN_FILE, Window, read_burnin
from twinlens.record.store import read_record

Pair = tuple[str, Any, Any]
"""What a figure is called, as it is stated and as it is worked out."""
_OF_A_WINDOW = ("workload", "turn", "seconds", "work", "rate_per_s", "failed", "outcome")
_NEEDS_ANOTHER = "rate-of-last"


def burnin_figures(folder: Path, *, whole: bool) -> Iterator[Pair]:
    """Of every burn-in below a folder: its windows, cut again from the turns; and `whole`, where the same version
    judged it, what follows from the windows. A rate over that of the last acceptance needs that one, and is left out.
    Raises BadInput (TL260)."""
    for path in sorted(folder.glob(f"**/{BURNIN_FILE}")):
        burnin = path.parent
        head, windows = read_burnin(burnin)
        yield from _windows(burnin, windows, _cut(burnin, head.asked.window_s))
        if whole and (burnin / VERDICT_FILE).exists():
            stated = read_record(burnin / VERDICT_FILE)
            rulings = judged(windows, head.criteria, head.asked, None).rulings
            said = _standings(stated)
            for each in rulings:
                if each.criterion.what != _NEEDS_ANOTHER:
                    yield f"{burnin.name}: {each.criterion.what}", said.get(each.criterion.what), each.standing


def _cut(burnin: Path, window_s: float) -> list[Window]:
    found: list[Window] = []
    for turn in sorted(burnin.glob("turn-*")):
        found += windows_of(turn, window_s, len(found) + 1)
    return found


def _windows(burnin: Path, stated: tuple[Window, ...], cut: list[Window]) -> Iterator[Pair]:
    for number, (said, true) in enumerate(zip_longest(stated, cut), start=1):
        place = f"{burnin.name}: window {number}"
        if said is None or true is None:
            yield place, "a window" if said else "nothing", "a window" if true else "nothing"
            continue
        for name in _OF_A_WINDOW:
            yield f"{place}: {name}", getattr(said, name), getattr(true, name)
        yield f"{place}: checks", _text(said.checks), _text(true.checks)


def _text(checks: Mapping[str, str]) -> str:
    return ", ".join(f"{name}: {digest}" for name, digest in sorted(checks.items()))


def _standings(stated: Mapping[str, Any]) -> dict[str, Any]:
    """Standings by criterion, as a verdict.json that anybody may have written says them."""
    try:
        return {each["criterion"]["what"]: each["standing"] for each in stated["judgement"]["rulings"]}
    except (KeyError, TypeError):
        return {}
