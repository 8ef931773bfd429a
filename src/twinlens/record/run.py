"""Runs as they lie on disk, one or several: what was asked, what ran, the rows, and nothing computed."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal, overload

import pyarrow as pa

from twinlens.errors import BadInput
from twinlens.record.arrow import read_rows
from twinlens.record.checksum import damaged
from twinlens.record.executor.facts import Facts
from twinlens.record.foreign_text import in_one_line
from twinlens.record.request import REQUEST_SCHEMA, Requests
from twinlens.record.samples import SERVER_SCHEMA, TELEMETRY_SCHEMA
from twinlens.record.sections import Sections
from twinlens.record.step import EXCHANGE_SCHEMA, STEP_SCHEMA, Exchanges, Steps
from twinlens.spec.precision import Lens
from twinlens.spec.study import RunSpec

State = Literal["running", "finished", "interrupted", "failed"]
Place = Literal["here", "elsewhere", "recorded", "simulated"]
ROWS: dict[Lens, tuple[str, pa.Schema]] = {
    "training": ("steps", STEP_SCHEMA),
    "inference": ("requests", REQUEST_SCHEMA),
    "collective": ("exchanges", EXCHANGE_SCHEMA),
}
"""The file of rows of each lens, without its ending, and its columns."""
_PLACES = {"openai-http": "elsewhere", "replay": "recorded"}


@dataclass(frozen=True, repr=False)
class Run:
    """A run folder; `sections` holds what else its run.json says.

    A run that was killed is "interrupted", whatever its record says, where its process is seen to be gone: visibly
    unfinished, still readable.
    """

    folder: Path
    id: str
    state: State
    spec: RunSpec
    facts: Facts | None
    started_utc: str
    ended_utc: str | None
    error: str | None
    version: str
    sections: Sections

    def __repr__(self) -> str:
        described = (
            f"{self.lens}, {self.spec.workload.model}, {self.spec.point.precision}, repeat {self.spec.repeat + 1}"
        )
        return in_one_line(f"<Run {self.id}: {described}, {self.state}>")

    @property
    def lens(self) -> Lens:
        return self.spec.lens

    @property
    def place(self) -> Place:
        """Where the work was done; of a run of an earlier version, which does not say, by the executors there were."""
        if self.sections.simulated is not None:
            return "simulated"
        known = self.sections.place or _PLACES.get(self.spec.executor.kind)
        return "elsewhere" if known == "elsewhere" else "recorded" if known == "recorded" else "here"

    @property
    def is_finished(self) -> bool:
        return self.state == "finished"

    @cached_property
    def table(self) -> pa.Table:
        """The rows as an Arrow table (for pandas, DuckDB and the like). Raises BadInput (TL220) for damaged ones."""
        least = (self.sections.rows or 0) if self.is_finished else 0  # a run of an older version does not say
        name, schema = ROWS[self.lens]
        return read_rows(self.folder / f"{name}.arrows", schema, whole=self.is_finished, least=least)

    def forget_rows(self) -> None:
        """Let go of the rows that were read; they are read again when they are asked for."""
        for name in ("table", "steps", "requests", "exchanges"):
            vars(self).pop(name, None)

    @cached_property
    def telemetry(self) -> pa.Table:
        """Samples of the machine meanwhile (TELEMETRY_SCHEMA); no rows where nothing was sampled."""
        return read_rows(self.folder / "telemetry.arrows", TELEMETRY_SCHEMA)

    @cached_property
    def server_samples(self) -> pa.Table:
        """Samples of the server's own metrics (SERVER_SCHEMA); no rows where it has no metrics page."""
        return read_rows(self.folder / "server.arrows", SERVER_SCHEMA)

    @cached_property
    def steps(self) -> Steps:
        """The rows of a training run. Raises TypeError for another run: the lenses share no rows."""
        self._refuse_rows("training")
        path = self.folder / "steps.arrows"
        with _readable(path):
            rows = Steps.from_table(self.table)
        if (rows.end_ns < rows.begin_ns).any():
            raise damaged(path, "a step ends before it begins")
        return rows

    @cached_property
    def requests(self) -> Requests:
        """The rows of an inference run. Raises TypeError for another run."""
        self._refuse_rows("inference")
        path = self.folder / "requests.arrows"
        with _readable(path):
            rows = Requests.from_table(self.table)
        if why := rows.disorder():
            raise damaged(path, why)
        return rows

    @cached_property
    def exchanges(self) -> Exchanges:
        """The rows of exchanges between ranks. Raises TypeError for a run of a model."""
        self._refuse_rows("collective")
        path = self.folder / "exchanges.arrows"
        with _readable(path):
            rows = Exchanges.from_table(self.table)
        if (rows.end_ns < rows.begin_ns).any() or (rows.rank_ns <= 0).any():
            raise damaged(path, "an exchange ends before it begins")
        return rows

    def _refuse_rows(self, lens: Lens) -> None:
        if self.lens != lens:
            raise TypeError(f"a run of kind {self.lens} has {ROWS[self.lens][0]}, not {ROWS[lens][0]}")


@contextlib.contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Values of an older run that no clock and no counter gives are a damage too."""
    try:
        yield
    except pa.ArrowException as error:
        raise damaged(path, str(error).splitlines()[0][:200]) from None


# Several runs as one value: a sequence that shows itself in a few lines.

_MOST_LINES = 20


@dataclass(frozen=True, slots=True, repr=False)
class Runs(Sequence[Run]):
    """Runs in order. `faults`: what is wrong with the ones that could not be read."""

    items: tuple[Run, ...]
    faults: tuple[BadInput, ...] = ()

    @classmethod
    def of(cls, runs: Iterable[Run]) -> Runs:
        """Runs that were all read."""
        return cls(tuple(runs))

    @property
    def fault(self) -> BadInput:
        """The first of `faults`, saying how many more there are. Raises IndexError where there is none."""
        more = f" (and {len(self.faults) - 1} more that cannot be read)" if len(self.faults) > 1 else ""
        return BadInput(f"{self.faults[0]}{more}", code=self.faults[0].code)

    def __len__(self) -> int:
        return len(self.items)

    @overload
    def __getitem__(self, place: int) -> Run: ...
    @overload
    def __getitem__(self, place: slice) -> Runs: ...
    def __getitem__(self, place: int | slice) -> Run | Runs:
        return Runs(self.items[place]) if isinstance(place, slice) else self.items[place]

    def __add__(self, other: Iterable[Run]) -> Runs:
        more = other if isinstance(other, Runs) else Runs.of(other)
        return Runs(self.items + more.items, self.faults + more.faults)

    def __repr__(self) -> str:
        lines = [repr(run) for run in self.items[:_MOST_LINES]]
        left = len(self.items) - len(lines)
        lines += [f"… and {left} more"] if left else []
        lines += [f"{len(self.faults)} could not be read: {self.faults[0]}"] if self.faults else []
        return "\n".join([f"{len(self.items)} run{'' if len(self.items) == 1 else 's'}:", *lines])
