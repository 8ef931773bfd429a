"""One side of a comparison: a name, the repeats of one operating point, and the runs behind them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from twinlens.record.run import Run
from twinlens.spec.precision import Lens
from twinlens.stats.paired.ratio import Rates, slice_rates
from twinlens.stats.summary.group import Group


@dataclass(frozen=True, slots=True)
class Side:
    """`name`: what it is called beside the other; `runs`: those of `group`, in its order; `folder`: where they lie."""

    name: str
    group: Group
    runs: tuple[Run, ...]
    folder: str = ""

    @property
    def lens(self) -> Lens:
        return self.group.lens

    @property
    def spec(self) -> dict[str, Any]:
        """All that was asked, as plain data; repeats share it but for the repeat.

        The precision is that of the group: a server that was up already has its own, whatever the default of a spec.
        """
        asked = self.runs[0].spec.to_dict()
        return asked | {"point": asked["point"] | {"precision": self.group.point["precision"]}}


def rates_of(chosen: Iterable[Side]) -> dict[str, Rates]:
    """The rates of the slices of runs that took turns, by id of the run."""
    runs = {run.id: run for side in chosen for run in side.runs}
    return {id: slice_rates(run) for id, run in runs.items() if run.sections.pairing and run.is_finished}
