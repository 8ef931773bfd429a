"""Beside an answer: what the server says of itself meanwhile, energy by counters of this machine, and what was measured
of the same server before."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from functools import lru_cache
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp

from twinlens.errors import TwinlensError
from twinlens.measurement.server.page import columns_of
from twinlens.record.run import Run
from twinlens.record.store import read_run
from twinlens.system.document import read_json
from twinlens.system.home_folder import from_tilde
from twinlens.web.playground.upstream import page

INTERACTIVE = "interactive"
"""The code of the finding by which a run says that somebody talked: it disqualifies, so that nothing ranks it."""
_PERIOD_S = 0.7
_GAUGES = ("kv_use", "running", "waiting")
_METRICS = {"ttft": "ttft_s_p50", "tpot": "tpot_s_p50"}
_MOST_RUNS, _MOST_BYTES = 300, 2_000_000


async def watch_server(asking: aiohttp.ClientSession, url: str, tell: Callable[[dict[str, Any]], None]) -> None:
    """Tell the gauges of the server's metrics page again and again, until cancelled; once, why there are none."""
    parts = urlsplit(url)
    place = f"{parts.scheme}://{parts.netloc}/metrics"
    while True:
        content = await page(asking, place)
        if content is None:
            tell({"why": "the server has no metrics page at /metrics"})
            return
        with contextlib.suppress(ValueError, LookupError, ArithmeticError, RecursionError):
            known = await asyncio.to_thread(columns_of, content)
            found = {name: known[name] for name in _GAUGES if name in known}
            if not found:
                tell({"why": "its metrics page has no gauge that is known here"})
                return
            tell(found)
        await asyncio.sleep(_PERIOD_S)


class Joules:
    """Energy of this machine's counters over one answer. A counter counts whatever else runs on its board too."""

    def __init__(self, url: str) -> None:
        self._why, self._meters = "", None
        if not is_here(url):
            self._why = "the server is on another machine, whose counters are not read from here"
            return
        from twinlens.measurement.machine.energy import open_meters

        self._meters = open_meters()
        if not self._meters.meters:
            self._why = self._meters.why()

    def per_token(self, tokens: int) -> dict[str, Any]:
        """Joules per output token, each scope on its own."""
        row = {"id": "energy", "name": "energy per token", "value": "", "n": 0, "why": self._why}
        if self._why or self._meters is None:
            return row
        read = {scope: joules for scope, joules in self._meters.read().items() if joules}
        if not read or tokens < 1:
            return row | {"why": "the counter did not move during this answer"}
        said = "; ".join(f"{scope.partition(':')[0]} {joules / tokens:.3g} J" for scope, joules in read.items())
        return row | {"value": said, "n": 1, "why": "all that ran on the board or in the package meanwhile is in it"}


def is_here(url: str) -> bool:
    """Whether an address is surely this machine's own."""
    host = urlsplit(url).hostname or ""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def servers_measured(folders: Sequence[Path]) -> dict[str, Path]:
    """The newest finished run of each server: by its address, and of one that was launched by `of_model`."""
    found: dict[str, Path] = {}
    for record in _records(folders)[:_MOST_RUNS]:
        with contextlib.suppress(OSError):
            for name in _names(str(record), record.stat().st_mtime_ns):
                found.setdefault(name, record.parent)
    return found


def of_model(model: str) -> str:
    """The name of a launched server among those that were measured."""
    return f"model {model}"


@lru_cache(maxsize=2048)
def _names(record: str, mtime_ns: int) -> tuple[str, ...]:
    """The names of the server of a run; none of one that is not finished, is a talk, or is no run of ours."""
    try:
        data = read_json(Path(record), _MOST_BYTES)
        codes = [each["code"] for each in (data["facts"] or {}).get("findings", ())]
        if data["state"] != "finished" or INTERACTIVE in codes:
            return ()
        url, server = data["asked"]["executor"].get("options", {}).get("url"), data.get("server")
        names = [str(url).rstrip("/")] if url else []
        return tuple(names + ([of_model(str(from_tilde(server["model"])))] if server else []))
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return ()


def _records(folders: Sequence[Path]) -> list[Path]:
    """The records of runs, the newest first, of regular files alone."""
    found = {record for folder in folders for record in (*folder.glob("*/run.json"), *folder.glob("*/*/run.json"))}
    return sorted((each for each in found if each.is_file()), key=lambda each: each.parent.name, reverse=True)


def measured_of(folders: Sequence[Path], url: str, model: str = "") -> dict[str, str]:
    """The intervals of the newest measured run of this server, by the id of a figure; "run": its name. Empty without
    one. `model`: of a server that was started from a page, where none of its address was measured."""
    known = servers_measured(folders)
    folder = known.get(url.rstrip("/")) or (known.get(of_model(model)) if model else None)
    if folder is None:
        return {}
    with contextlib.suppress(TwinlensError):
        return _told(read_run(folder))
    return {}


def _told(run: Run) -> dict[str, str]:
    from twinlens.measurement.summary_file import summary_of
    from twinlens.units import show

    summary, told = summary_of(run), {"run": run.id}
    load = _load(run)
    for name, metric in _METRICS.items():
        estimate = summary.metrics.get(metric)
        if estimate is None or estimate.value is None:
            continue
        bounds = ", no interval"
        if estimate.low is not None and estimate.high is not None:
            bounds = f" ({show(estimate.low, estimate.unit)} to {show(estimate.high, estimate.unit)})"
        told[name] = f"p50 {show(estimate.value, estimate.unit)}{bounds}, {summary.validity}{load}"
    return told


def _load(run: Run) -> str:
    """How hard the server was asked meanwhile: beside one request it says why the two differ."""
    point = run.spec.point
    if point.rate_per_s is not None:
        return f", at {point.rate_per_s:g} requests/s"
    return "" if point.concurrency is None else f", at {point.concurrency} in flight"
