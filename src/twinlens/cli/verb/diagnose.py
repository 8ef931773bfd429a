"""`twinlens diagnose`: what binds each run, and what to try."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from twinlens.api.diagnose import diagnosed, diagnosed_points, diagnosis_json
from twinlens.api.questions import Diagnose
from twinlens.api.runs import read
from twinlens.cli.console import out
from twinlens.cli.screen import err, print_json, sentences
from twinlens.errors import BadInput
from twinlens.reporting.document.terminal import screen
from twinlens.reporting.judging.diagnosis import diagnoses_document


def run(name: str, given: Mapping[str, Any]) -> None:
    with sentences():
        asked = Diagnose.read(name, given)
        if asked.self_test:
            from twinlens.cli.verb.self_test import run_self_test

            return run_self_test(map(str, asked.runs), asked.json_)
        if not asked.runs:
            raise BadInput("diagnose what? Give a run folder, or --self-test", code="TL228")
        runs = read(*asked.runs)
        if asked.try_:
            from twinlens.api.judging.falsify import falsify  # what measures is not read to look at what was measured
            from twinlens.api.measuring.progress import Progress

            falsify(runs, watch=Progress())
        found = diagnosed(runs, asked.ceilings)
        if asked.instrument is not None:
            if len(found) != 1:
                raise BadInput(f"--instrument takes one run, not {len(found)}", code="TL239")
            from twinlens.api.judging.instrument import watch

            watch(*found[0][0], asked.instrument)
            found = diagnosed(runs, asked.ceilings)
        points = diagnosed_points(runs, asked.ceilings)
        if asked.json_:
            print_json(diagnosis_json([each for _, each in found], points))
        else:
            out().print(screen(diagnoses_document(points), whole=asked.all_))
        if asked.file is not None:
            from twinlens.reporting.document.html import write

            write(diagnoses_document(points), asked.file)
            err().print(f"report: {asked.file.resolve()}", soft_wrap=True)
