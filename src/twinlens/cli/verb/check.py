"""`twinlens check`: whether a spec can be measured, what it stands for, and what theory says of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from twinlens.api.measuring.studies import check
from twinlens.api.questions import Check
from twinlens.cli.screen import err, out, print_json, sentences
from twinlens.reporting.document.terminal import screen
from twinlens.reporting.judging.check import check_document


def run(name: str, given: Mapping[str, Any]) -> None:
    with sentences():
        asked = Check.read(name, given)
        checked = check(asked.spec, refuse=False, at=asked.at, set_=asked.set_)
        if asked.json_:
            print_json(checked.to_json())
        else:
            out().print(screen(check_document(checked), whole=asked.all_))
        for sentence in checked.lacking:
            err().print(f"! not measured, the others are: {sentence}", style="yellow", markup=False)
        if checked.refusal is not None:
            raise checked.refusal
