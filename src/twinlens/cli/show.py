"""`twinlens show`: the metric table of one run, or of several by lens; or what is on disk, as JSON."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from twinlens.api.runs import as_json, material_of, peers, read, write_rows
from twinlens.cli.screen import err, out, print_json, sentences
from twinlens.errors import BadInput
from twinlens.measurement.search_from_rows import searches_of
from twinlens.record.codec import encode
from twinlens.record.run import Run, Runs
from twinlens.reporting.markdown import markdown
from twinlens.reporting.screen.runs_table import runs_table
from twinlens.reporting.text.paired_table import renew_paired
from twinlens.reporting.text.peer_table import peer_table
from twinlens.reporting.tidy import as_csv, tidy_rows


@dataclass(frozen=True, slots=True)
class Form:
    """In what form runs are shown: on a screen unless one of these is asked for; `whole` is of the screen."""

    json: bool = False
    tool: str | None = None
    whole: bool = False
    csv: bool = False
    markdown: bool = False
    parquet: Path | None = None

    def check(self) -> None:
        """Raises BadInput where two forms are asked for at once."""
        asked = {"--all": self.whole, "--csv": self.csv, "--markdown": self.markdown, "--parquet": self.parquet}
        named = [name for name, on in (asked | {"--json or --as": self.json or self.tool}).items() if on]
        if len(named) > 1:
            raise BadInput(f"{' and '.join(named)} are two forms of the same runs: choose one of them")


def run(paths: list[Path], form: Form) -> None:
    with sentences():
        form.check()
        runs = read(*paths, skip_broken=True)
        _print(runs, form)
        if form.tool is None and not runs.faults:
            with suppress(OSError):  # a folder that cannot be written can still be read
                renew_paired(material_of(runs))
        if runs.faults:
            raise runs.fault


def _print(runs: Runs, form: Form) -> None:
    if form.tool is not None:
        _print_as(runs, form.tool, form.json)
    elif form.json:
        print_json(as_json(runs))
    elif form.csv:
        sys.stdout.write(as_csv(tidy_rows(summary for _, summary in material_of(runs))))
    elif form.markdown:
        sys.stdout.write(markdown(material_of(runs)))
    elif form.parquet is not None:
        write_rows(runs, form.parquet)
        err().print(f"rows: {form.parquet.resolve()}", soft_wrap=True)
    else:
        print_runs(runs, whole=form.whole)


def print_runs(runs: Iterable[Run], *, whole: bool = False) -> None:
    """One run on a screen, or one row per operating point of several; `whole`: every metric of it."""
    chosen = tuple(runs)
    out().print(runs_table(material_of(chosen), searches_of(chosen, skip_broken=True), whole=whole))


def _print_as(runs: Runs, tool: str, json: bool) -> None:
    """Another tool's figures of each run, under its names."""
    if not json:
        out().print(peer_table(runs, tool))
        return
    figures = [
        {"run": shown.id, "tool": tool, "figures": {name: encode(e) for name, e in peers(shown, tool).items()}}
        for shown in runs
    ]
    print_json(figures[0] if len(figures) == 1 else figures)
