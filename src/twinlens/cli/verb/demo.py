"""`twinlens demo`: the main job on an embedded default, both lenses, and a report at the end."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from twinlens.api.measuring.demo import demo
from twinlens.api.measuring.gate import raise_failures
from twinlens.api.questions import Demo
from twinlens.api.runs import as_json
from twinlens.cli.console import out
from twinlens.cli.progress import progress, tell_refusals
from twinlens.cli.screen import err, print_json, sentences
from twinlens.cli.verb.show import print_runs
from twinlens.measurement.study import Outcome
from twinlens.record.store import end_study


def run(name: str, given: Mapping[str, Any]) -> None:
    with sentences():
        asked = Demo.read(name, given)
        done = demo(asked.out, watch=progress(asked.quiet), fresh=asked.fresh, keep_open=True,
                    first=None if asked.json_ else _print_first)  # fmt: skip
        tell_refusals(done.outcomes)
        if asked.json_:
            print_json(as_json(done.runs))
        else:
            print_runs(done.runs)
            console = out()
            for sentence in done.sentences:
                console.print(sentence)
            console.print()
        err().print(f"report: {done.report.resolve()}", soft_wrap=True)
        sys.stdout.flush()
        for outcome in done.outcomes:
            end_study(outcome.folder)
        for outcome in done.outcomes:
            raise_failures(outcome)


def _print_first(outcome: Outcome, following: int) -> None:
    """The table of the first study while the others are measured."""
    print_runs(outcome.runs)
    out().print(f"\nThe first of {following + 1} studies; the table of all follows.\n")
    sys.stdout.flush()
