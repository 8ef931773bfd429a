"""`twinlens diagnose`: what binds each run, and what to try."""

from __future__ import annotations

from pathlib import Path

from twinlens.api.diagnose import diagnosed, diagnosed_points, diagnosis_json
from twinlens.api.runs import read
from twinlens.cli.screen import err, out, print_json, sentences
from twinlens.errors import BadInput
from twinlens.reporting.screen.diagnosis import diagnoses_screen, diagnosis_whole


def run(
    paths: list[Path],
    json: bool,
    whole: bool = False,
    page: Path | None = None,
    ceilings: Path | None = None,
    try_: bool = False,
    instrument: str | None = None,
) -> None:
    with sentences():
        if not paths:
            raise BadInput("diagnose what? Give a run folder, or --self-test", code="TL228")
        runs = read(*paths)
        if try_:
            from twinlens.api.falsify import falsify  # what measures is not read to look at what was measured
            from twinlens.api.progress import Progress

            falsify(runs, watch=Progress())
        found = diagnosed(runs, ceilings)
        if instrument is not None:
            if len(found) != 1:
                raise BadInput(f"--instrument takes one run, not {len(found)}", code="TL239")
            from twinlens.api.instrument import watch

            watch(*found[0][0], instrument)
            found = diagnosed(runs, ceilings)
        points = diagnosed_points(runs, ceilings)
        if json:
            print_json(diagnosis_json([each for _, each in found], points))
        elif whole:
            for entry, diagnosis in points:
                out().print(diagnosis_whole(*entry.material[0], diagnosis), *([""] if len(points) > 1 else []))
        else:
            out().print(diagnoses_screen(points))
        if page is not None:
            from twinlens.reporting.html.diagnosis_page import write_diagnosis

            write_diagnosis(found, page)
            err().print(f"report: {page.resolve()}", soft_wrap=True)
