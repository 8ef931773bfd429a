"""Document of `plan fit`: the answer, parts of memory as bars, changes that flip it, and what it rests on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from twinlens.planning.fit.answer import Fit, Placement
from twinlens.record.finding import Finding
from twinlens.reporting.display import clean
from twinlens.reporting.document.block import (
    DETAIL,
    Arithmetic,
    Bar,
    Bars,
    Block,
    Document,
    Line,
    Table,
    Tone,
    assumed_row,
    cells,
    row,
)
from twinlens.reporting.wording.finding import clause_of
from twinlens.reporting.wording.planned.plan import (
    NAMES,
    fit_words,
    like_words,
    placed_cells,
    placed_words,
    subject_words,
)
from twinlens.theory.figure import Figure
from twinlens.units import digits

_TONES: dict[bool | None, Tone] = {True: "good", False: "bad", None: "doubt"}
_MOST_OTHERS = 6
_MOST_ROWS = 15
_TOLD = ("weights", "kv", "optimizer", "adapters", "state")
_OTHERS = "The fewest of each device that hold it."
_HEADS = ("device", "count", "GB needed\neach", "GB usable\neach", "free")


def fit_document(answer: Fit, notes: Sequence[Finding] = ()) -> Document:
    return Document.of("Plan: fit", subject_words(answer.plan), _blocks(answer, notes))


def _blocks(answer: Fit, notes: Sequence[Finding]) -> Iterator[Block]:
    asked = answer.asked
    others = tuple(cells(placed_cells(each)) for each in answer.others)
    if asked is None:
        yield Line(f"{subject_words(answer.plan)}: the fewest of each device that hold it.", is_lead=True)
        yield Table(_OTHERS, _HEADS, others, short=others[:_MOST_ROWS])
        for each in answer.others[:1]:
            yield _bars(each, is_drawn=False)
            yield Arithmetic((each.needed, each.usable, *answer.most), rank=DETAIL)
    else:
        yield Line(fit_words(answer), _TONES[asked.fits], is_lead=True)
        yield _bars(asked, is_drawn=True)
        yield row("like", like_words(answer.plan))
        yield row("would do", [clause_of(each) for each in answer.changes])
        yield row("at most", [f"{each.value:,} {each.unit}" for each in answer.most if asked.fits])
        yield row("fits on", [placed_words(each) for each in answer.others[:_MOST_OTHERS]])
        yield Arithmetic(
            (asked.needed, asked.usable, *answer.most), tuple(_told(asked, False)), tuple(_told(asked, True))
        )
        yield Table(_OTHERS, _HEADS, others, rank=DETAIL)
    yield row("unknown", _unknown(answer))
    yield row("legal", [f"{name} {', '.join(map(str, degrees))}" for name, degrees in answer.legal], rank=DETAIL)
    yield assumed_row((*notes, *answer.assumptions()), clause_of)


def _unknown(answer: Fit) -> list[str]:
    """Why figures are absent."""
    if answer.plan.subject.shape is None and answer.asked is None:
        return [f"{clean(answer.plan.subject.name, 60)} has no layers here: name a model, or give its config.json"]
    parts = answer.asked.parts if answer.asked else ()
    return [clause_of(part.reason) for part in parts if part.reason is not None]


def _bars(placed: Placement, *, is_drawn: bool) -> Bars:
    """The parts on the fullest device, at one scale with what is usable."""
    room = float(placed.usable.value or 0)
    bars = tuple(_bar(each, room) for each in (*placed.parts, placed.needed, placed.usable))
    title = f"{placed_words(placed)}: each device has {digits(room / 1e9, 4)} GB usable."
    caption = "Memory on the fullest device, by part. Dashed: usable memory. Line: sums of parts are off by up to 3 %."
    return Bars(bars, title, caption, room, is_drawn)


def _bar(figure: Figure, room: float) -> Bar:
    name, value = NAMES.get(figure.name, figure.name), None if figure.value is None else float(figure.value)
    if value is None:
        return Bar(name, figure, "not known")
    over = figure.name == "needed" and value > room
    tone: Tone = "bad" if over else "dim" if figure.name in ("usable", "needed") else "part"
    return Bar(name, figure, f"{digits(value / 1e9, 4)} GB", tone)


def _told(placed: Placement, whole: bool) -> Iterator[tuple[str, Figure]]:
    """Figures whose arithmetic is told in a line, each with its name."""
    shown = placed.parts if whole else [each for each in placed.parts if each.name in _TOLD]
    for each in (*shown, *((placed.needed,) if whole else ()), placed.usable):
        yield NAMES.get(each.name, each.name), each
        if each.name != "needed" and (whole or each.name == "kv"):
            yield from ((NAMES.get(one.name, one.name), one) for one in each.inputs if isinstance(one, Figure))
