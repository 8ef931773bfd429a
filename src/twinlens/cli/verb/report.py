"""`twinlens report`: one self-contained HTML file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from twinlens.api.page_asked import Report
from twinlens.api.report import report
from twinlens.api.runs import read
from twinlens.cli.screen import err, sentences


def run(name: str, given: Mapping[str, Any]) -> None:
    with sentences():
        asked = Report.read(name, given)
        runs = read(*asked.runs, skip_broken=True)
        report(runs, asked.file, all_=asked.all_, left_out=[f"A run is left out: {fault}." for fault in runs.faults])
        err().print(f"report: {asked.file.resolve()}", soft_wrap=True)
        if runs.faults:
            raise runs.fault
