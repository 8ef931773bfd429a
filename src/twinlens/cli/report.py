"""`twinlens report`: one self-contained HTML file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from twinlens.cli.runs import fail_for, gathered
from twinlens.cli.screen import err, sentences
from twinlens.errors import BadInput
from twinlens.measurement.summary_file import summary_of
from twinlens.record.run import Run
from twinlens.record.search import searches_of
from twinlens.reporting.html.render import write
from twinlens.reporting.view import view


def run(paths: list[Path], file: Path) -> None:
    with sentences():
        if not file.parent.is_dir():
            raise BadInput(f"there is no folder {str(file.parent)!r} for the report; make it, or give -o another path")
        runs, faults = gathered(paths)
        write_report(runs, file, left_out=[f"A run is left out: {fault}." for fault in faults])
        err().print(f"report: {file.resolve()}", soft_wrap=True)
        fail_for(faults)


def write_report(runs: Sequence[Run], file: Path, title: str | None = None, left_out: Sequence[str] = ()) -> None:
    """Write the report of some runs, `left_out`: sentences on those it lacks."""
    write(view([(one, summary_of(one)) for one in runs], title, searches_of(runs), left_out), file)
