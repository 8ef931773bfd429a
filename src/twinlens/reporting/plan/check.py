"""Document of `plan check`: what works together, then memory, power, link, errors, time and speed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from twinlens.planning.check.answer import Check, Ruling
from twinlens.planning.figure import Figure
from twinlens.record.finding import Finding
from twinlens.reporting.display import clean
from twinlens.reporting.document.block import DETAIL, Arithmetic, Block, Cell, Document, Line, Table, Tone, row
from twinlens.reporting.wording.amount import amount
from twinlens.reporting.wording.finding import clause_of
from twinlens.reporting.wording.plan_check import (
    VERDICTS,
    axis_words,
    error_words,
    head_words,
    link_words,
    power_words,
    ruling_words,
    speed_words,
    time_words,
)

_TONES: dict[str, Tone] = {"yes": "good", "limited": "doubt", "no": "bad", "unknown": "doubt"}
_HEADS: dict[bool | None, Tone] = {True: "good", False: "bad", None: "doubt"}
_FITS = {True: "yes", False: "no", None: "unknown"}


def check_document(check: Check, notes: Sequence[Finding] = ()) -> Document:
    return Document.of("Plan: check", _subject(check), _blocks(check, notes))


def _subject(check: Check) -> str:
    stack = check.stack
    return f"{clean(stack.model, 60)} in {clean(stack.precision, 40)} on {check.devices:,} × {stack.device.name}"


def _blocks(check: Check, notes: Sequence[Finding]) -> Iterator[Block]:
    yield Line(head_words(check), _HEADS[check.passes], is_lead=True)
    yield _table(check)
    yield row("power", [power_words(check)])
    yield row("link", [link_words(check)])
    yield row("errors", [error_words(check, True)], short=[error_words(check, False)])
    yield row("time", [time_words(check)] if check.time else [])
    yield row("speed", [speed_words(check)] if check.speed else [])
    yield row("sources", [f"{axis_words(each, check.stack)}: {_whole(each)}" for each in check.rulings], apart=True,
              rank=DETAIL)  # fmt: skip
    figures = tuple((each.name, each) for each in check.figures())
    yield Arithmetic(tuple(check.figures()), (), figures, tone="dim")
    yield row("assumed", [clause_of(each) for each in (*notes, *check.assumptions())], "dim")


def _whole(each: Ruling) -> str:
    return ruling_words(each, True) + (f" ({each.source}, {each.date})" if each.source else "")


def _table(check: Check) -> Table:
    fits = _FITS[check.memory.fits]
    rows: list[tuple[str, str, str]] = [
        (axis_words(each, check.stack), each.verdict, ruling_words(each, False)) for each in check.rulings
    ]
    rows.append(("memory of each", fits, _room(check)))
    shown = tuple((Cell(name), Cell(VERDICTS[verdict], _TONES[verdict]), Cell(words)) for name, verdict, words in rows)
    return Table("What works together.", ("", "", ""), shown, ("left", "left", "left"), remarks=True)


def _room(check: Check) -> str:
    needed, usable = check.memory.needed, check.memory.usable
    close = ", close" if check.memory.fits and check.memory.is_close else ""
    return f"{_gb(needed)} needed of {_gb(usable)} usable{close}"


def _gb(figure: Figure) -> str:
    return "more than is known" if figure.value is None else amount(float(figure.value), "bytes", plain=True)
