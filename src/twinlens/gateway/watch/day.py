"""One day (UTC) of traffic as a run: its folder, its rows as they come, and what it says of itself."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from twinlens.gateway.outcome import Outcome
from twinlens.gateway.watch.columns import ROUTE_SCHEMA, request_rows, route_rows
from twinlens.record.arrow import RowWriter, read_rows
from twinlens.record.codec import encode
from twinlens.record.executor.facts import Facts
from twinlens.record.executor.record import ExecutorRecord, declared, observed
from twinlens.record.finding import Finding
from twinlens.record.store import create_run, end_run, open_rows, read_run, update_run, write_json
from twinlens.spec.load import parse
from twinlens.spec.source.attached import TRAFFIC, attached
from twinlens.spec.study import RunSpec
from twinlens.version import __version__

_SUMMARISE = (
    "import pathlib, sys; from twinlens.gateway.watch.day import summarise; summarise(pathlib.Path(sys.argv[1]))"
)
DAY_S = 86_400.0
_ROUTES, _BACKENDS = "routes.arrows", "backends.json"


@dataclass(frozen=True, slots=True)
class Front:
    """The gateway as its runs name it: its address as far as /v1, and its backends as plain data (names, addresses,
    identities). `process`: which of several, None where there is one."""

    url: str
    backends: tuple[dict[str, Any], ...]
    process: int | None = None


class Day:
    """The run of one day. Times count from `origin_ns` of the monotonic clock. Raises ExecutorFailed (TL301) where the
    disk is full, here and in all that writes."""

    def __init__(self, out: Path, name: str, front: Front, first: Sequence[Outcome], origin_ns: int) -> None:
        self.name, self._front, self._origin_ns = name, front, origin_ns
        self._sums, self._models = [0, 0, 0, 0], dict.fromkeys(each.model for each in first if each.model)
        self._add_up(first)
        spec = self._spec(1.0, DAY_S)
        self.folder = create_run(out, spec)
        update_run(self.folder, place="elsewhere", facts=encode(self._facts()))
        write_json(self.folder / _BACKENDS, {"schema": 1, "twinlens": __version__, "backends": front.backends})
        self._rows = open_rows(self.folder, spec)
        self._routes = RowWriter(self.folder / _ROUTES, ROUTE_SCHEMA)
        self._last_ns = origin_ns
        self._write(first)

    @property
    def count(self) -> int:
        return self._rows.count

    def add(self, outcomes: Sequence[Outcome]) -> None:
        """Some more rows, on disk when this returns."""
        self._add_up(outcomes)
        self._models.update(dict.fromkeys(each.model for each in outcomes if each.model))
        self._write(outcomes)

    def end(self, *, waits: bool) -> None:
        """No more come. The summary is made by a process of its own, which may outlive this one; `waits`: not."""
        self._rows.close()
        self._routes.close()
        seconds = max((self._last_ns - self._origin_ns) / 1e9, 1e-3)
        spec = self._spec(self.count / seconds, max(1.0, float(f"{1.01 * seconds:.4g}")))
        update_run(self.folder, asked=spec.to_dict(), fingerprint=spec.fingerprint(), facts=encode(self._facts()))
        end_run(self.folder, "finished", rows=self.count)
        if not waits:
            command = [sys.executable, "-c", _SUMMARISE, str(self.folder)]
            subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                             stderr=subprocess.DEVNULL, start_new_session=True)  # fmt: skip
            return
        summarise(self.folder)

    def _write(self, outcomes: Sequence[Outcome]) -> None:
        first = self.count
        self._last_ns = max(self._last_ns, *(each.end_ns for each in outcomes))
        self._rows.add_table(request_rows(outcomes, first, self._origin_ns))
        self._routes.add_table(route_rows(outcomes, first, self._origin_ns))

    def _add_up(self, outcomes: Sequence[Outcome]) -> None:
        for each in outcomes:
            if each.input_tokens is not None and each.output_tokens:
                for place, much in enumerate((1, each.input_tokens, each.output_tokens)):
                    self._sums[place] += much

    def _spec(self, rate_per_s: float, seconds: float) -> RunSpec:
        """What a measured run would have been asked for: the mean lengths and the mean rate, as far as they came, and
        the time from the first to the last."""
        known, prompt, made = self._sums[:3]
        lengths = [{"kind": "fixed", "value": max(1, round(each / known)) if known else 1} for each in (prompt, made)]
        load: dict[str, Any] = {
            "workload": {
                "kind": "inference", "input_tokens": lengths[0], "output_tokens": lengths[1],
                "arrival": {"kind": "poisson"},
            },
            "protocol": {"repeats": 1, "duration_s": seconds, "steady_s": min(20.0, seconds / 3)},
            "point": {"rate_per_s": float(f"{max(rate_per_s, 1e-6):.4g}")},
        }  # fmt: skip
        options = {"url": self._front.url}
        study = parse(attached(load, options, next(iter(self._models), "served")), where="a day of traffic")
        number = "" if self._front.process is None else f"-{self._front.process}"
        return study.runs()[0].model_copy(update={"name": f"{TRAFFIC}-{self.name}{number}"})

    def _facts(self) -> Facts:
        fields = {
            "software.runtime.name": observed(f"twinlens gateway {__version__}", "this program"),
            "model.id": declared(", ".join(list(self._models)[:20]) or "not said", "its clients"),
            "protocol.timer": observed(
                "monotonic clock of the gateway, as it reads what backends send", f"twinlens {__version__}"
            ),
        }
        finding = Finding(TRAFFIC, "disqualifies", "", {"backends": len(self._front.backends)})
        return Facts(ExecutorRecord(fields), findings=(finding,))


def routes_of(folder: Path) -> pa.Table:
    """The routes beside a run of traffic (`ROUTE_SCHEMA`), no rows where it has none. Raises BadInput (TL220)."""
    return read_rows(folder / _ROUTES, ROUTE_SCHEMA)


def summarise(folder: Path) -> None:
    """Write the summary of a day that is over."""
    from twinlens.measurement.summary_file import store_summary

    store_summary(read_run(folder))
