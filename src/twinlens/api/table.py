"""The verb for tables that people ask for: training beside inference, and one model in two runtimes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from twinlens.api.compare import compared, pairs, sides
from twinlens.api.question import asks
from twinlens.api.questions import COMPARE
from twinlens.api.questions import Table as Asked
from twinlens.api.runs import summary
from twinlens.comparison.lenses import LensRow, RuntimeShares, SwitchRow, lens_rows, runtime_shares, switch_rows
from twinlens.comparison.ranking import Pairs, pairs_of
from twinlens.comparison.side import Side, rates_of
from twinlens.diagnosis.verdict import fitness, training_state
from twinlens.errors import BadInput, nearest
from twinlens.record.codec import encode
from twinlens.record.finding import Finding
from twinlens.record.run import Run
from twinlens.reporting.wording.finding import with_words
from twinlens.version import __version__

TABLES = ("lenses", "runtimes", "switches")
Runs = str | Path | Run | Iterable[Run]


@dataclass(frozen=True, slots=True)
class Fit:
    """A point with what it is good or inadequate for, and whether its memory could train what it serves."""

    name: str
    fitness: Finding
    training: Finding | None

    def to_json(self) -> dict[str, Any]:
        """A plain mapping."""
        training = encode(self.training) if self.training else None
        return {"name": self.name, "fitness": encode(self.fitness), "training_state": training}


@dataclass(frozen=True, slots=True)
class Table:
    """One of `TABLES`; the parts of the others are empty."""

    kind: str
    rows: tuple[LensRow, ...] = ()
    fits: tuple[Fit, ...] = ()
    shares: tuple[RuntimeShares, ...] = ()
    switches: tuple[SwitchRow, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """A plain mapping, with `text` and `advice` in each finding."""
        parts = {
            name: [encode(each) for each in getattr(self, name)] for name in ("rows", "fits", "shares", "switches")
        }
        plain = {"schema": 1, "twinlens": __version__, "table": self.kind} | {k: v for k, v in parts.items() if v}
        return with_words(plain)  # type: ignore[no-any-return]


@asks(COMPARE, Asked)
def table(kind: str, *runs: Runs) -> Table:
    """`lenses`: each measured change, training beside inference. `runtimes`: an engine beside servers of one model.
    `switches`: the default of a server against each of its switches.

    Raises BadInput (TL225) for another table, and where the runs hold no pair for it.
    """
    if kind not in TABLES:
        raise BadInput(f"there is no table {kind[:40]!r}; {nearest(kind, TABLES)}", code="TL225")
    if kind == "runtimes":
        return Table(kind, shares=runtime_shares([side for each in runs for side in sides(each, len(runs) > 1)]))
    if kind == "switches":
        chosen = [side for each in runs for side in sides(each, False)]
        found_rows = switch_rows(chosen, rates_of(chosen))
        if not found_rows:
            raise BadInput("no two points here differ in a switch of a launched server", code="TL225")
        return Table(kind, switches=found_rows)
    found = pairs(*runs)
    if all(a.lens != b.lens for a, b in found.pairs):  # a folder of each lens: its changes are inside it
        each_within = [pairs_of([sides(one, False)]) for one in runs]
        found = Pairs(tuple(pair for one in each_within for pair in one.pairs))
    rows = lens_rows(compared(found))
    if not rows:
        raise BadInput("no two points of one lens and model are here, so there is no change to show", code="TL225")
    return Table(kind, rows, tuple(_fits([side for pair in found.pairs for side in pair])))


def _fits(chosen: Sequence[Side]) -> Iterable[Fit]:
    """Each side once, judged by its first run that is ranked, else by its first finished one.

    The training state of a model is said once, whatever the precision that it is served in.
    """
    said: set[str] = set()
    for side in {(side.lens, side.name): side for side in chosen}.values():
        finished = [run for run in side.runs if run.is_finished]
        if finished:
            summaries = [(run, summary(run)) for run in finished]
            run, told = next((pair for pair in summaries if pair[1].ranked), summaries[0])
            state = None if side.group.model in said else training_state(run)
            said |= {side.group.model} if state else set()
            yield Fit(side.name, fitness(run, told), state)
