"""The report of runs as a page shows it, made in a thread, once for as long as their files stay as they are."""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from twinlens.errors import BadInput, TwinlensError
from twinlens.reporting.display import clean
from twinlens.reporting.document.block import Document, Line
from twinlens.web.runs.index import Found
from twinlens.web.runs.notes import CODE
from twinlens.web.runs.reading import refuse_links
from twinlens.web.runs.row import stamp_of

if TYPE_CHECKING:  # heavy
    from twinlens.record.run import Runs
    from twinlens.reporting.view import View

MOST_RUNS = 300
"""Of one page; a folder of more is opened study by study."""
_KEPT = 6
_LOG = logging.getLogger("twinlens.web")


@dataclass(frozen=True, slots=True)
class Point:
    """A run behind a point: what tells it apart, and how many rows it has."""

    id: str
    name: str
    lens: str
    repeat: int
    rows: int
    validity: str


@dataclass(frozen=True, slots=True)
class Made:
    """A report, or a sentence in its place. `points`: the runs behind it, of each point together."""

    title: str
    document: Document
    json: Any = None
    points: tuple[Point, ...] = ()
    trouble: str = ""


_made: OrderedDict[tuple[Any, ...], Made] = OrderedDict()
_making = threading.Lock()


def report_of(found: Found, runs: Sequence[Found]) -> Made:
    """The report of a run, or of the runs of a study; a sentence where there is none. Raises nothing of what is there.

    One at a time: a second browser that asks the same waits for the first, and finds it made.
    """
    key = (found.path, found.kind, *(stamp_of(each.path) for each in runs))
    with _making:
        if key not in _made:
            _made[key] = _tried(found, runs)
            while len(_made) > _KEPT:
                _made.popitem(last=False)
        _made.move_to_end(key)
        return _made[key]


def _tried(found: Found, runs: Sequence[Found]) -> Made:
    try:
        for each in (found, *runs):
            refuse_links(each.path)
        return _beside(found) if found.kind in ("burnin", "tuning") else _report(found, runs)
    except (TwinlensError, OSError, ValueError) as error:
        said = clean(getattr(error, "strerror", None) or error, 600)
    except (ArithmeticError, LookupError, TypeError, AttributeError, RecursionError, MemoryError) as error:
        _LOG.warning("the report of %s failed", clean(found.path, 300), exc_info=True)
        said = f"its report cannot be made ({type(error).__name__}); the server's own output has the details"
    return Made(clean(found.name, 120), Document.of("Run", "", [Line(said)]), {"error": said}, (), said)


def _beside(found: Found) -> Made:
    """A burn-in or a tuning, as far as it is."""
    from twinlens.api.runs import answer_at

    answer = answer_at([Path(found.path)])
    if answer is None:
        raise BadInput(f"{clean(found.name, 120)} is no burn-in and no tuning any more", code=CODE)
    return Made(clean(found.name, 120), answer.document(), answer.to_json())


def _report(found: Found, runs: Sequence[Found]) -> Made:
    import pyarrow as pa

    from twinlens.api.runs import as_json, read

    if not runs:
        raise BadInput(f"{clean(found.name, 120)} holds no run yet", code=CODE)
    if len(runs) > MOST_RUNS:
        raise BadInput(f"{len(runs):,} runs are too many for one page; open them one by one", code=CODE)
    pa.set_memory_pool(pa.system_memory_pool())  # Arrow's own keeps 8 MB for the next rows
    chosen = read(*(each.path for each in runs), skip_broken=True)
    shown, document = document_of(chosen)
    ids = {each.path: each.id for each in runs}
    points = tuple(
        Point(ids[str(run.folder)], entry.name, lens.lens, summary.repeat + 1, summary.rows, summary.validity)
        for lens in shown.lenses
        for entry in lens.entries
        for run, summary in sorted(entry.material, key=lambda each: each[1].repeat)
    )
    made = Made(shown.title, document, as_json(chosen), points)
    for run in chosen:
        run.forget_rows()
    return made


def document_of(chosen: Runs) -> tuple[View, Document]:
    """The report of runs that were read, as the verb writes it, with what could not be read said in it."""
    from twinlens.api.diagnose import diagnoser
    from twinlens.api.runs import material_of
    from twinlens.measurement.search_from_rows import searches_of
    from twinlens.reporting.report.page import report_document
    from twinlens.reporting.view import view

    material = material_of(chosen)
    faults = [str(each) for each in chosen.faults]
    shown = view(material, None, searches_of(tuple(chosen), skip_broken=True), faults)
    return shown, report_document(shown, diagnoser(material))
