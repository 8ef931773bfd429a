"""The verb that writes a report: every point, with the diagnosis of each as `diagnose` gives it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from twinlens.api.diagnose import diagnoser
from twinlens.api.question import asks
from twinlens.api.questions import REPORT
from twinlens.api.runs import material_of
from twinlens.errors import BadInput
from twinlens.measurement.search_from_rows import searches_of
from twinlens.record.run import Run


@asks(REPORT)
def report(
    runs: Iterable[Run], to: str | Path, title: str | None = None, left_out: Sequence[str] = (), *, all_: bool = False
) -> Path:
    """Write one self-contained HTML file. Returns its path.

    `left_out`: sentences on runs that it lacks. `all_`: nothing is folded.

    Raises BadInput where the folder of `to` is not there.
    """
    from twinlens.reporting.report.page import write  # charts are heavy, and no other verb draws them
    from twinlens.reporting.view import view

    path, chosen = Path(to), tuple(runs)
    if not path.parent.is_dir():
        raise BadInput(f"there is no folder {str(path.parent)!r} for the report; make it, or give -o another path")
    material = material_of(chosen)
    write(
        view(material, title, searches_of(chosen, skip_broken=bool(left_out)), left_out),
        path,
        diagnoser(material),
        unfolded=all_,
    )
    return path
