"""Document of `plan capacity`: the answer, each figure with its band and its parts, and how far it can be trusted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from twinlens.planning.capacity.serving import ServingCapacity
from twinlens.planning.capacity.training import TrainingCapacity
from twinlens.record.finding import Finding
from twinlens.reporting.document.block import (
    Arithmetic,
    Bar,
    Bars,
    Block,
    Document,
    Drawing,
    Line,
    Table,
    Tone,
    cells,
    row,
)
from twinlens.reporting.plan.bands import bands
from twinlens.reporting.wording.amount import amount, span
from twinlens.reporting.wording.finding import clause_of
from twinlens.reporting.wording.planned.capacity import (
    NAMES,
    answer_words,
    count_words,
    devices_words,
    serving_words,
    target_words,
    training_words,
)
from twinlens.theory.figure import Figure
from twinlens.units import SECONDS, show

if TYPE_CHECKING:
    from twinlens.reporting.chart.figure import Figure as Chart

Measured = tuple[str, str, float, float]
"""Run, metric, and seconds measured and predicted there."""
_TONES: dict[bool | None, Tone] = {True: "good", False: "bad", None: ""}


def capacity_document(
    found: ServingCapacity | TrainingCapacity, notes: Sequence[Finding] = (), measured: Sequence[Measured] = ()
) -> Document:
    subject = serving_words(found.plan) if isinstance(found, ServingCapacity) else training_words(found.plan)
    return Document.of("Plan: capacity", subject, _blocks(found, notes, measured))


def _blocks(
    found: ServingCapacity | TrainingCapacity, notes: Sequence[Finding], measured: Sequence[Measured]
) -> Iterator[Block]:
    yield Line(answer_words(found), _TONES[found.is_met], is_lead=True)
    timed = [each for each in found.figures if each.unit in ("s", "tokens/s", "requests/s")]
    known = [each for each in timed if each.value is not None]
    banded = [each for each in known if each.low is not None and each.high is not None]
    most = [("at most", found.most)] if isinstance(found, ServingCapacity) else []
    yield bands("Predicted, with bands.", [*((NAMES.get(each.name, each.name), each) for each in banded), *most],
                apart=True)  # fmt: skip
    if known:
        yield _table(known, found.tails if isinstance(found, ServingCapacity) else ())
    for each in timed:
        if each.formula.count("+"):
            yield row(NAMES.get(each.name, each.name), [_sum(each)])
        if each.value is None and each.reason is not None:
            yield row(NAMES.get(each.name, each.name), [f"not known: {clause_of(each.reason)}"])
    tops: tuple[Figure, ...] = found.figures
    if isinstance(found, ServingCapacity):
        yield row("at most", [target_words(found)])
        yield row("takes", [devices_words(found)])
        yield Drawing(partial(_curves, found))
        tops = (*found.figures, *found.tails, found.most, found.devices)
        yield from _parts(found.figure("tpot"), "step-", "The time between two tokens")
    else:
        if found.devices is not None:
            reason = found.devices.reason
            yield row("takes", [count_words(found.devices) if reason is None else clause_of(reason)])
        yield from _parts(found.step, "part-", "A step")
    like = [f"{metric.upper()} {show(seconds, SECONDS)} measured, {show(said, SECONDS)} predicted there ({run})"
            for run, metric, seconds, said in measured]  # fmt: skip
    yield row("like", like, apart=True, first=4)
    told = found.figures if isinstance(found, TrainingCapacity) else (*found.figures, found.devices)
    yield Arithmetic(tops, (), tuple(line for each in told for line in _arithmetic(each)))
    yield row("memory", [clause_of(each) for each in found.remarks if each.code == "plan-memory"])
    apart = [each for each in found.remarks if each.code == "plan-not-considered"]
    yield row("bands", [clause_of(each) for each in found.remarks if each.code != "plan-memory" and each not in apart])
    yield row("assumed", [clause_of(each) for each in (*notes, *apart)])


def _table(figures: Sequence[Figure], tails: Sequence[Figure]) -> Table:
    """Value and band of each figure, and what 99 of 100 requests stay within."""
    slowest = {each.name.removesuffix("-p99"): _slow(each) for each in tails}
    rows = []
    for each in figures:
        value, low, high = (None if end is None else float(end) for end in (each.value, each.low, each.high))
        band = "" if low is None or high is None else span(low, high, each.unit)
        shown = amount(value or 0, each.unit, plain=True)
        line = (NAMES.get(each.name, each.name), shown, band, slowest.get(each.name, ""))
        rows.append(cells(line if slowest else line[:3]))
    heads = ("", "mean", "90 % band", "p99, modelled") if slowest else ("", "predicted", "90 % band")
    return Table(
        "Predicted figures with their bands.", heads, tuple(rows), ("left", "right", "left", "left")[: len(heads)]
    )


def _slow(figure: Figure) -> str:
    """ "442 ms, to 1.75 s": p99, and its far end."""
    far = "" if figure.high is None else f", to {amount(float(figure.high), figure.unit)}"
    return f"{amount(float(figure.value or 0), figure.unit)}{far or ', no end'}"


def _sum(figure: Figure) -> str:
    """Figures of the same unit that it is the sum of: "60.8 ms prefill + 163 ms wait before it"."""
    parts = [each for each in figure.inputs if isinstance(each, Figure) and each.unit == figure.unit]
    return " + ".join(f"{show(float(each.value or 0), SECONDS)} {NAMES.get(each.name, each.name)}" for each in parts)


def _arithmetic(figure: Figure) -> Iterator[tuple[str, Figure]]:
    if figure.formula:
        yield NAMES.get(figure.name, figure.name), figure
    for each in figure.inputs:
        if isinstance(each, Figure) and each.formula:
            yield NAMES.get(each.name, each.name), each


def _curves(found: ServingCapacity) -> Sequence[Chart]:
    from twinlens.reporting.plan.curve import capacity_curves  # charts are heavy

    return capacity_curves(found)


def _parts(whole: Figure | None, prefix: str, what: str) -> Iterator[Bars]:
    """Bars of what a time is the sum of, and of the sum with its band."""
    if whole is None or whole.value is None:
        return
    parts = [each for each in whole.inputs if isinstance(each, Figure) and each.name.startswith(prefix)]
    if parts:
        largest = max(parts, key=lambda each: float(each.value or 0))
        bars = tuple(Bar(NAMES.get(each.name, each.name), each, show(float(each.value or 0), SECONDS))
                     for each in (*parts, whole))  # fmt: skip
        title = f"{what} takes {show(float(whole.value), SECONDS)}, most of it {NAMES.get(largest.name, largest.name)}."
        caption = "Predicted seconds by cause; the line is the band of the sum."
        yield Bars(bars, title, caption)
