"""`twinlens report`: one self-contained HTML file."""

from __future__ import annotations

from pathlib import Path

from twinlens.api.report import report
from twinlens.api.runs import read
from twinlens.cli.screen import err, sentences


def run(paths: list[Path], file: Path) -> None:
    with sentences():
        runs = read(*paths, skip_broken=True)
        report(runs, file, left_out=[f"A run is left out: {fault}." for fault in runs.faults])
        err().print(f"report: {file.resolve()}", soft_wrap=True)
        if runs.faults:
            raise runs.fault
