"""The readings of a server's metrics page as columns: where it was started again, and differences of its counters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
import pyarrow as pa

from twinlens.record.samples import COUNTERS, GAUGES

# A sum of many floats may come out lower by rounding when its parts are added in another order.
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class ServerRows:
    """Readings that succeeded, in time order. `columns`: name → values [n], NaN where the server says nothing.

    `restarts_ns`: for each time a counter fell, the reading after it.
    """

    time_ns: np.ndarray
    round_trip_ns: np.ndarray
    columns: dict[str, np.ndarray]
    restarts_ns: np.ndarray

    def __len__(self) -> int:
        return len(self.time_ns)

    @classmethod
    def from_table(cls, table: pa.Table) -> Self:
        """From a table with SERVER_SCHEMA; rows with an error are left out."""
        good = table.column("error").is_null().to_numpy() if table.num_rows else np.zeros(0, bool)
        order = np.argsort(table.column("time_ns").to_numpy()[good], kind="stable")

        def column(name: str) -> np.ndarray:
            values = np.asarray(table.column(name).cast(pa.float64()).to_numpy(), dtype=float)
            return np.asarray(values[good][order])

        names = [name for name in (*GAUGES, *COUNTERS) if name in table.column_names]
        columns = {name: column(name) for name in names}
        time_ns = table.column("time_ns").to_numpy()[good][order]
        round_trip_ns = table.column("round_trip_ns").to_numpy()[good][order]
        return cls(time_ns, round_trip_ns, columns, _restarts(time_ns, columns))

    def within(self, begin_ns: int, end_ns: int) -> Self:
        """The readings between two moments of the run, both included."""
        inside = (self.time_ns >= begin_ns) & (self.time_ns <= end_ns)
        columns = {name: values[inside] for name, values in self.columns.items()}
        time_ns = self.time_ns[inside]
        first = time_ns[0] if len(time_ns) else end_ns
        restarts_ns = self.restarts_ns[(self.restarts_ns > first) & (self.restarts_ns <= end_ns)]
        return type(self)(time_ns, self.round_trip_ns[inside], columns, restarts_ns)

    def known(self, name: str) -> np.ndarray:
        """The values that are there. Shape: (at most n,)."""
        values = self.columns.get(name, np.empty(0))
        return np.asarray(values[~np.isnan(values)])

    def steps(self, *names: str) -> tuple[np.ndarray, ...]:
        """Differences of counters from one reading that has all of them to the next. Shape: (k,) each."""
        columns = [self.columns.get(name, np.full(len(self), np.nan)) for name in names]
        both = ~np.isnan(np.array(columns)).any(axis=0)
        return tuple(np.diff(values[both]) for values in columns)

    def why_not(self, *names: str) -> str | None:
        """Why differences of these counters cannot be had; None where they can."""
        if len(self.restarts_ns):
            moments = ", ".join(f"{moment / 1e9:.1f} s" for moment in self.restarts_ns[:3])
            return f"the server was started again in mid-run (seen at {moments}): its counters started from zero"
        if any(not self.known(name).size for name in names):
            return "the server does not say it"
        if not self.steps(*names)[0].size:
            return "there are fewer than two readings to subtract"
        return None


def _restarts(time_ns: np.ndarray, columns: dict[str, np.ndarray]) -> np.ndarray:
    restarts: set[int] = set()
    for name in COUNTERS:
        values = columns.get(name, np.empty(0))
        known = ~np.isnan(values)
        numbers = values[known]
        fell = np.diff(numbers) < -_ROUNDING * np.abs(numbers[:-1])
        restarts |= set(time_ns[known][1:][fell].tolist())
    return np.array(sorted(restarts), dtype=np.int64)
