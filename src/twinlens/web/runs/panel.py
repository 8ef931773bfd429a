"""The panel of one lens on the first page: the same as at the top of a report, made of the newest study alone."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

from twinlens.errors import TwinlensError
from twinlens.reporting.display import clean
from twinlens.reporting.document.block import Box, Line
from twinlens.spec.precision import Lens
from twinlens.web.runs.index import Found
from twinlens.web.runs.reading import refuse_links
from twinlens.web.runs.row import stamp_of

_KEPT = 8
_made: OrderedDict[tuple[Any, ...], Box] = OrderedDict()
_making = threading.Lock()


def kept_panel(lens: Lens, runs: Sequence[Found]) -> Box | None:
    """The panel where it was made of these very files; else None."""
    return _made.get(_key(lens, runs))


def panel_of(lens: Lens, runs: Sequence[Found]) -> Box:
    """The rate of each point with its interval, what binds it, and what was not measured; or why there is none."""
    key = _key(lens, runs)
    with _making:
        if key not in _made:
            try:
                _made[key] = _panel(lens, runs)
            except (TwinlensError, OSError, ValueError, ArithmeticError, LookupError, TypeError) as error:
                said = f"The newest result cannot be shown: {clean(error, 300) or type(error).__name__}"
                _made[key] = Box(lens.capitalize(), (Line(said),))
            while len(_made) > _KEPT:
                _made.popitem(last=False)
        return _made[key]


def _key(lens: Lens, runs: Sequence[Found]) -> tuple[Any, ...]:
    return (lens, *((each.path, stamp_of(each.path)) for each in runs))


def _panel(lens: Lens, runs: Sequence[Found]) -> Box:
    from twinlens.api.diagnose import diagnoser
    from twinlens.api.runs import material_of, read
    from twinlens.reporting.judging.diagnosis import diagnosed_points
    from twinlens.reporting.report.answer import panels
    from twinlens.reporting.run.grid import absent_words, parts_of
    from twinlens.reporting.text.sentence import sentences
    from twinlens.reporting.view import view

    for each in runs:
        refuse_links(each.path)
    material = material_of(read(*(each.path for each in runs), skip_broken=True))
    shown = view([pair for pair in material if pair[0].lens == lens])
    said = sentences(shown.groups("training"), shown.groups("inference"))[0 if lens == "training" else 1]
    mine = shown.lenses[0]
    box = panels(shown, {lens: said}, {lens: diagnosed_points(mine, diagnoser(material))}).boxes[0]
    absent = [absent_words(part.absent) for part in parts_of(mine.groups)[:1]]
    for run, _ in material:
        run.forget_rows()
    return Box(box.text, (*box.blocks, *(Line(each, "dim") for each in absent if each)), box.tone, box.anchor)
