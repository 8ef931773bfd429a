"""`twinlens show`: the metric table of one run, or of several by lens; or what is on disk, as JSON."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from twinlens.api.questions import Show
from twinlens.api.runs import answer_at, as_json, material_of, peers, read, write_rows
from twinlens.cli.console import out
from twinlens.cli.screen import err, print_json, sentences
from twinlens.errors import BadInput
from twinlens.measurement.search_from_rows import searches_of
from twinlens.record.codec import encode
from twinlens.record.run import Run, Runs
from twinlens.reporting.comparing.paired import renew_paired
from twinlens.reporting.comparing.peers import peers_document
from twinlens.reporting.document.markdown import markdown
from twinlens.reporting.document.terminal import screen
from twinlens.reporting.run.points import runs_document
from twinlens.reporting.tidy import as_csv, tidy_rows

if TYPE_CHECKING:
    from twinlens.api.measuring.burnin import BurninResult
    from twinlens.api.measuring.tune import TuneResult


def run(name: str, given: Mapping[str, Any]) -> None:
    with sentences():
        asked = Show.read(name, given)
        _refuse_two_forms(asked)
        if (found := answer_at(asked.runs)) is not None:
            _print_answer(found, asked)
            return
        runs = read(*asked.runs, skip_broken=True)
        _print(runs, asked)
        if asked.tool is None and not runs.faults:
            with suppress(OSError):  # a folder that cannot be written can still be read
                renew_paired(material_of(runs))
        if runs.faults:
            raise runs.fault


def _print_answer(found: BurninResult | TuneResult, asked: Show) -> None:
    """A burn-in or a tuning with what is there; its runs lie in folders of their own inside it."""
    if asked.tool is not None or asked.csv or asked.parquet is not None:
        raise BadInput(f"{asked.runs[0]} is a burn-in or a tuning, and the form is one of runs: name a folder in it")
    if asked.json_:
        print_json(found.to_json())
    elif asked.markdown:
        sys.stdout.write(found.to_markdown())
    else:
        out().print(found.screen(why=asked.whole))


def _refuse_two_forms(asked: Show) -> None:
    forms = {"--all": asked.whole, "--csv": asked.csv, "--markdown": asked.markdown, "--parquet": asked.parquet,
             "--json or --as": asked.json_ or asked.tool}  # fmt: skip
    named = [name for name, on in forms.items() if on]
    if len(named) > 1:
        raise BadInput(f"{' and '.join(named)} are two forms of the same runs: choose one of them")


def _print(runs: Runs, asked: Show) -> None:
    if asked.tool is not None:
        _print_as(runs, asked.tool, asked.json_)
    elif asked.json_:
        print_json(as_json(runs))
    elif asked.csv:
        sys.stdout.write(as_csv(tidy_rows(summary for _, summary in material_of(runs))))
    elif asked.markdown:
        sys.stdout.write(markdown(runs_document(material_of(runs)), head=False))
    elif asked.parquet is not None:
        write_rows(runs, asked.parquet)
        err().print(f"rows: {asked.parquet.resolve()}", soft_wrap=True)
    else:
        print_runs(runs, whole=asked.whole)


def print_runs(runs: Iterable[Run], *, whole: bool = False) -> None:
    """One run on a screen, or one row per operating point of several; `whole`: every metric of it."""
    chosen = tuple(runs)
    out().print(screen(runs_document(material_of(chosen), searches_of(chosen, skip_broken=True)), whole=whole))


def _print_as(runs: Runs, tool: str, json: bool) -> None:
    """Another tool's figures of each run, under its names."""
    if not json:
        out().print(screen(peers_document(runs, tool), whole=True))
        return
    figures = [
        {"run": shown.id, "tool": tool, "figures": {name: encode(e) for name, e in peers(shown, tool).items()}}
        for shown in runs
    ]
    print_json(figures[0] if len(figures) == 1 else figures)
