"""Diagnoses as one self-contained HTML file: each run in full, and the rooflines of all."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from twinlens.diagnosis.diagnosis import Diagnosis
from twinlens.reporting.chart.roofline import roofline_chart
from twinlens.reporting.html import page
from twinlens.reporting.html.diagnosed import diagnosed
from twinlens.reporting.html.render import environment, write_page
from twinlens.reporting.view import LENSES, Material, view
from twinlens.version import __version__


def diagnosis_page(found: Sequence[tuple[Material, Diagnosis]]) -> str:
    """The page as text; everything foreign is escaped by the template."""
    seen = view([material for material, _ in found])
    parts = [
        (lens, [diagnosed(each.run, each) for (run, _), each in found if run.lens == lens])
        for lens in LENSES
    ]  # fmt: skip
    roofs = {
        lens.lens: [
            figure
            for place, entries in enumerate(lens.under("lockstep").parts)
            if (figure := roofline_chart(lens, entries, f"{lens.lens}{place}-roof")) is not None
        ]
        for lens in seen.lenses
    }
    return environment().get_template("diagnosis_page.html.j2").render(
        version=__version__,
        subjects=page.subjects(seen),
        parts=[(lens, mine) for lens, mine in parts if mine],
        roofs=roofs,
    )  # fmt: skip


def write_diagnosis(found: Sequence[tuple[Material, Diagnosis]], path: str | Path) -> Path:
    """Write the page, making its folder. Raises BadInput (TL207) when the disk refuses it."""
    return write_page(diagnosis_page(found), path)
