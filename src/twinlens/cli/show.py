"""`twinlens show`: the metric table of one run, or of several by lens; or what is on disk, as JSON."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from twinlens.api.runs import as_json, material_of, peers, read
from twinlens.cli.screen import out, print_json, sentences
from twinlens.record.run import Run
from twinlens.record.runs import Runs
from twinlens.record.search import searches_of
from twinlens.reporting.text.paired_table import renew_paired
from twinlens.reporting.text.peer_table import peer_table
from twinlens.reporting.text.runs_table import runs_table


def run(paths: list[Path], json: bool, tool: str | None = None, whole: bool = False) -> None:
    with sentences():
        runs = read(*paths, skip_broken=True)
        if tool is not None:
            _print_as(runs, tool, json)
        elif json:
            print_json(as_json(runs))
        else:
            print_runs(runs, whole=whole)
        if tool is None and not runs.faults:
            with suppress(OSError):  # a folder that cannot be written can still be read
                renew_paired(material_of(runs))
        if runs.faults:
            raise runs.fault


def print_runs(runs: Iterable[Run], *, whole: bool = False) -> None:
    """One run on a screen, or one row per operating point of several; `whole`: every metric of it."""
    chosen = tuple(runs)
    out().print(runs_table(material_of(chosen), searches_of(chosen), whole=whole))


def _print_as(runs: Runs, tool: str, json: bool) -> None:
    """Another tool's figures of each run, under its names."""
    if not json:
        out().print(peer_table(runs, tool))
        return
    found = [
        {"run": one.id, "tool": tool, "figures": {name: e.to_json() for name, e in peers(one, tool).items()}}
        for one in runs
    ]
    print_json(found[0] if len(found) == 1 else found)
