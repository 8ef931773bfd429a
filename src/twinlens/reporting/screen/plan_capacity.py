"""Capacity on one screen: the answer, each figure with its band and its parts, and how much it can be trusted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Group as Stack
from rich.console import RenderableType
from rich.text import Text

from twinlens.planning.capacity.serving import ServingCapacity
from twinlens.planning.capacity.training import TrainingCapacity
from twinlens.planning.figure import Figure
from twinlens.record.finding import Finding
from twinlens.reporting.text.fitted import Fitted, FittedTable
from twinlens.reporting.text.footnote import hanging
from twinlens.reporting.wording.amount import amount, span
from twinlens.reporting.wording.finding import clause_of
from twinlens.reporting.wording.plan import figure_words
from twinlens.reporting.wording.plan_capacity import NAMES, answer_words, count_words, devices_words, target_words
from twinlens.units import SECONDS, show

Row = tuple[str, str, float, float]
_STYLES = {True: "green", False: "red", None: ""}


def capacity_screen(
    found: ServingCapacity | TrainingCapacity,
    notes: Sequence[Finding] = (),
    measured: Sequence[Row] = (),
    *,
    why: bool = False,
) -> RenderableType:
    """A screen of 80 columns. `measured`: run, metric, and seconds measured and said. `why`: every formula."""
    return Fitted(lambda width: Stack(*_lines(found, notes, measured, why)))


def _lines(
    found: ServingCapacity | TrainingCapacity, notes: Sequence[Finding], measured: Sequence[Row], why: bool
) -> Iterator[RenderableType]:
    yield hanging("", answer_words(found), f"bold {_STYLES[found.is_met]}".strip())
    timed = [each for each in found.figures if each.unit in ("s", "tokens/s", "requests/s")]
    known = [each for each in timed if each.value is not None]
    if known:
        yield _table(known, found.tails if isinstance(found, ServingCapacity) else ())
    for each in timed:
        if each.formula.count("+") and _parts(each):
            yield hanging(_mark(each), _parts(each), "")
        if each.value is None and each.reason is not None:
            yield hanging(_mark(each), f"not known: {clause_of(each.reason)}", "")
    if isinstance(found, ServingCapacity):
        yield hanging("at most   ", target_words(found), "")
        yield hanging("takes     ", devices_words(found), "")
    elif found.devices is not None:
        reason = found.devices.reason
        yield hanging("takes     ", count_words(found.devices) if reason is None else clause_of(reason), "")
    for run, metric, seconds, said in measured[:4]:
        words = f"{metric.upper()} {show(seconds, SECONDS)} measured, {show(said, SECONDS)} predicted there ({run})"
        yield hanging("like      ", words, "")
    if why:
        tops = found.figures if isinstance(found, TrainingCapacity) else (*found.figures, found.devices)
        for each in tops:
            yield from (hanging("computed  ", words, "") for words in _arithmetic(each))
    yield from _row("memory    ", [clause_of(each) for each in found.remarks if each.code == "plan-memory"])
    apart = [each for each in found.remarks if each.code == "plan-not-considered"]
    bands = [each for each in found.remarks if each.code != "plan-memory" and each not in apart]
    yield from _row("bands     ", [clause_of(each) for each in bands])
    yield from _row("assumed   ", [clause_of(each) for each in (*notes, *apart)])


def _table(figures: Sequence[Figure], tails: Sequence[Figure]) -> RenderableType:
    """Value and band of each figure, and what 99 of 100 requests stay within."""
    slowest = {each.name.removesuffix("-p99"): _slow(each) for each in tails}
    rows = []
    for each in figures:
        value, low, high = (None if end is None else float(end) for end in (each.value, each.low, each.high))
        band = "" if low is None or high is None else span(low, high, each.unit)
        shown = amount(value or 0, each.unit, plain=True)
        row = (Text(NAMES.get(each.name, each.name)), Text(shown), Text(band), Text(slowest.get(each.name, "")))
        rows.append(row if slowest else row[:3])
    heads, sides = ("", "mean", "90 % band", "p99, modelled"), ("left", "right", "left", "left")
    if not slowest:
        heads = ("", "predicted", "90 % band", "")
    width = len(rows[0])
    return FittedTable(heads[:width], sides[:width], tuple(rows)).table()


def _slow(figure: Figure) -> str:
    """ "442 ms, to 1.75 s": p99, and its far end."""
    far = "" if figure.high is None else f", to {amount(float(figure.high), figure.unit)}"
    return f"{amount(float(figure.value or 0), figure.unit)}{far or ', no end'}"


def _mark(figure: Figure) -> str:
    """The name before a line on a figure, with a space after it however long it is."""
    return f"{NAMES.get(figure.name, figure.name):<9} "


def _parts(figure: Figure) -> str:
    """Figures of the same unit that it is the sum of: "60.8 ms prefill + 163 ms wait before it"."""
    parts = [each for each in figure.inputs if isinstance(each, Figure) and each.unit == figure.unit]
    return " + ".join(f"{show(float(each.value or 0), SECONDS)} {NAMES.get(each.name, each.name)}" for each in parts)


def _arithmetic(figure: Figure) -> Iterator[str]:
    if figure.formula:
        yield f"{NAMES.get(figure.name, figure.name)}: {figure_words(figure)}"
    for each in figure.inputs:
        if isinstance(each, Figure) and each.formula:
            yield f"{NAMES.get(each.name, each.name)}: {figure_words(each)}"


def _row(mark: str, clauses: Sequence[str]) -> Iterator[RenderableType]:
    if clauses:
        yield hanging(mark, "; ".join(clauses), "")
