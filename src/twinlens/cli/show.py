"""`twinlens show`: the metric table of one run, or of several by lens; or what is on disk, as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from twinlens.cli.runs import fail_for, gathered
from twinlens.cli.screen import out, print_json, sentences
from twinlens.measurement.summary_file import summary_of
from twinlens.record.run import Run
from twinlens.record.search import search_json, searches_of
from twinlens.reporting.paired import paired_json
from twinlens.reporting.screen.one_run import run_screen
from twinlens.reporting.text.first_lines import first_lines
from twinlens.reporting.text.footnote import hanging
from twinlens.reporting.text.paired_table import paired_of, paired_table, write_paired
from twinlens.reporting.text.peer_table import peer_figures, peer_table
from twinlens.reporting.text.search_table import search_table
from twinlens.reporting.text.table import metric_table, summary_table
from twinlens.reporting.view import given_twice
from twinlens.stats.summary.group import Summary, group, once
from twinlens.stats.summary.run import to_json


def run(paths: list[Path], json: bool, tool: str | None = None, whole: bool = False) -> None:
    with sentences():
        runs, faults = gathered(paths)
        if tool is not None:
            _show_as(runs, tool, json)
        elif json:
            print_json(summaries_json(runs))
        else:
            show_runs(runs, whole=whole)
        if tool is None and not faults:
            _renew_paired(runs)
        fail_for(faults)


def _renew_paired(runs: Sequence[Run]) -> None:
    """paired.json of each study that was shown whole, where its runs say something else by now."""
    for folder in {run.folder.parent for run in runs if run.raw.get("pairing")}:
        mine = [run for run in runs if run.folder.parent == folder]
        if len(mine) == len(list(folder.glob("*/run.json"))):
            with suppress(OSError):  # a folder that cannot be written can still be read
                write_paired(folder, paired_of(group(map(summary_of, mine)), mine))


def _show_as(runs: Sequence[Run], tool: str, json: bool) -> None:
    """Another tool's figures of each run, under its names."""
    if not json:
        out().print(peer_table(runs, tool))
        return
    found = [
        {"run": one.id, "tool": tool, "figures": {k: e.to_json() for k, e in peer_figures(one, tool).items()}}
        for one in runs
    ]
    print_json(found[0] if len(found) == 1 else found)


def show_runs(runs: Sequence[Run], *, whole: bool = False) -> None:
    """One run on a screen, or one row per operating point of several; `whole`: every metric of it."""
    console = out()
    runs, summaries, again = distinct(runs)
    for sentence in given_twice(again):
        console.print(hanging("! ", sentence, "yellow"))
    if len(summaries) == 1:
        console.print(metric_table(summaries[0]) if whole else run_screen(runs[0], summaries[0]))
    else:
        groups = group(summaries)
        turns = paired_of(groups, runs)
        console.print(first_lines(groups, turns))
        for lens in ("training", "inference"):
            if any(one.lens == lens for one in groups):
                console.print(summary_table(groups, lens))
        if turns:
            console.print(paired_table(turns))
    for record in searches_of(runs):
        console.print(search_table(record))


def distinct(runs: Sequence[Run]) -> tuple[list[Run], list[Summary], tuple[str, ...]]:
    """Each run once with its summary, and the ids of those that were given more than once."""
    pairs = [(one, summary_of(one)) for one in runs]
    kept, again = once(summary for _, summary in pairs)
    wanted = set(map(id, kept))
    left = [pair for pair in pairs if id(pair[1]) in wanted]
    return [run for run, _ in left], [summary for _, summary in left], again


def summaries_json(runs: Sequence[Run]) -> Any:
    """The summary of one run, or a list of several: what summary.json holds; beside the searches they belong to."""
    from twinlens.version import __version__

    runs, summaries, _ = distinct(runs)
    found = [{"twinlens": __version__} | to_json(one) for one in summaries]
    searches = [search_json(record) for record in searches_of(runs)]
    turns = paired_json(paired_of(group(summaries), runs))
    beside = ({"searches": searches} if searches else {}) | ({"paired": turns} if turns else {})
    if beside and len(found) > 1:
        return beside | {"runs": found}
    return found[0] if len(found) == 1 else found
