"""`twinlens report`: one self-contained HTML file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from twinlens.cli.screen import err, sentences
from twinlens.measure.search_file import searches_of
from twinlens.measure.summary_file import summary_of
from twinlens.record.run import Run
from twinlens.record.store import find_runs
from twinlens.report.html import write
from twinlens.report.view import view


def run(paths: list[Path], file: Path) -> None:
    with sentences():
        write_report([found for path in paths for found in find_runs(path)], file)
        err().print(f"report: {file.resolve()}", soft_wrap=True)


def write_report(runs: Sequence[Run], file: Path, title: str | None = None) -> None:
    """Write the report of some runs, making the folder it goes to."""
    file.parent.mkdir(parents=True, exist_ok=True)
    write(view([(one, summary_of(one)) for one in runs], title, searches_of(runs)), file)
