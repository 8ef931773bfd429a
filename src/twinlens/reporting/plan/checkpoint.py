"""Document of `plan checkpoint`: the best time between two saves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from twinlens.planning.checkpoint import SavePlan
from twinlens.record.finding import Finding
from twinlens.reporting.display import clean
from twinlens.reporting.document.block import Arithmetic, Block, Document, Line, row
from twinlens.reporting.plan.bands import bands
from twinlens.reporting.wording.finding import clause_of, sentence_of
from twinlens.theory.figure import Figure, Input
from twinlens.units import SECONDS, digits, show


def checkpoint_document(answer: SavePlan, notes: Sequence[Finding] = ()) -> Document:
    return Document.of("Plan: checkpoint", "How often to save.", _blocks(answer, notes))


def _blocks(answer: SavePlan, notes: Sequence[Finding]) -> Iterator[Block]:
    yield Line(head_words(answer), is_lead=True)
    half, twice = answer.beside
    told = {"at half of it": half, "at the best": answer.kept, "at twice": twice, "as the run saves": answer.kept_now}
    kept = [(name, replace(each, unit="share")) for name, each in told.items() if each is not None]
    yield bands("Goodput by the time between saves.", kept)
    yield row("goodput", [kept_words(answer)])
    yield row("from", [input_line(each) for each in answer.kept.inputs[1:]], apart=True)
    yield row("formula", [sentence_of(note) for note in answer.notes()], apart=True)
    figures = tuple(answer.figures())
    yield Arithmetic(figures, (), tuple((each.name.replace("-", " "), each) for each in figures))
    yield row("assumed", [clause_of(each) for each in notes], "dim")


# Sentences on how often to save.


def head_words(answer: SavePlan) -> str:
    """ "Save every 16.1 min (12.0 to 20.1 min), 9,670 steps; 90.2% of the wall time is then kept."."""
    steps = "" if answer.steps is None else f", {answer.steps.number:,.0f} step{'s' if answer.steps.number > 1 else ''}"
    on = "" if answer.devices is None else f" on {answer.devices:,} devices"
    return (
        f"Save every {_time(answer.interval)}{steps}{on}; {_share(answer.kept)} of the wall time then goes into steps "
        "that are kept."
    )


def kept_words(answer: SavePlan) -> str:
    """How flat the best is, and where the run stands."""
    half, twice = answer.beside
    now = "" if answer.kept_now is None else f"; as the run saves: {_share(answer.kept_now)}"
    return f"at half the interval {_share(half)}, at twice {_share(twice)}{now}"


def input_line(each: Input | Figure) -> str:
    """ "cost of a save 1.68 s (1.20 to 2.16 s), measured: …"."""
    assert isinstance(each, Figure)
    return f"{each.name.replace('-', ' ')} {_time(each)}, {clean(each.source, 120)}"


def _time(figure: Figure) -> str:
    band = ""
    if figure.low is not None and figure.high is not None:
        band = f" ({show(float(figure.low), SECONDS)} to {show(float(figure.high), SECONDS)})"
    return f"{show(figure.number, SECONDS)}{band}"


def _share(figure: Figure) -> str:
    band = ""
    if figure.low is not None and figure.high is not None:
        band = f" ({_percent(float(figure.low))} to {_percent(float(figure.high))})"
    return f"{_percent(figure.number)}{band}"


def _percent(value: float) -> str:
    return f"{digits(100 * value, 4)} %"
