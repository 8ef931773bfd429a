"""Document of `plan model`: memory, speed, cost and score of each model, the Pareto set marked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from twinlens.planning.models import Candidate, Choice
from twinlens.record.finding import Finding
from twinlens.reporting.display import clean
from twinlens.reporting.document.block import Arithmetic, Block, Cell, Document, Line, Table, Tone, cells, row
from twinlens.reporting.plan.bands import bands
from twinlens.reporting.wording.finding import clause_of
from twinlens.theory.figure import Figure
from twinlens.units import digits

_HEADS = ("", "", "GB\nin all", "ms a\ntoken", "tokens/s\nof the box", "$ per\nmillion", "score", "")


def model_document(choice: Choice, notes: Sequence[Finding] = ()) -> Document:
    names = ", ".join(clean(each.name, 60) for each in choice.candidates)
    return Document.of("Plan: model", names, _blocks(choice, notes))


def _blocks(choice: Choice, notes: Sequence[Finding]) -> Iterator[Block]:
    yield Line(head_words(choice), "good" if choice.best else "bad", is_lead=True)
    yield bands("Time per token of each model.", [(clean(each.name, 60), each.tpot) for each in choice.candidates])
    rows = tuple(_row(each, choice) for each in choice.candidates)
    yield Table("Each model on this machine; → marks the Pareto set.", _HEADS, rows,
                ("left", "left", "right", "right", "right", "right", "right", "left"), remarks=True)  # fmt: skip
    told = [(each.name, figure) for each in choice.candidates
            for figure in (each.memory.needed, each.tpot, each.throughput, each.cost)]  # fmt: skip
    tops = tuple(figure for _, figure in told)
    yield Arithmetic(tops, (), tuple((f"{name}: {figure.name}", figure) for name, figure in told), tone="dim")
    plan = choice.candidates[0].plan
    users = "1 user" if plan.users == 1 else f"{plan.users:,} users"
    load = f"{users} of {plan.context:,} tokens, weights in {plan.weight_format}"
    said = [load, "scores are yours and predict nothing", *map(clause_of, notes)]
    yield row("assumed", list(dict.fromkeys(said)), "dim")


def _row(one: Candidate, choice: Choice) -> tuple[Cell, ...]:
    mark = "✗" if one.against else "→" if one.name in choice.best else ""
    tone: Tone = "strong" if mark == "→" else "dim" if mark else ""
    size, speed = one.bytes, one.tpot.value
    score = "" if one.told.quality is None else f"{one.told.quality:g}"
    texts = (
        one.name, "?" if size is None else digits(size / 1e9), "?" if speed is None else digits(1000 * float(speed)),
        _number(one.throughput), _number(one.cost), score, remark_words(one, choice),
    )  # fmt: skip
    return Cell(mark), *cells(texts, tone)


def _number(figure: Figure) -> str:
    return "?" if figure.value is None else digits(float(figure.value))


# Sentences on the choice of a model: what is left, what beats what, and which constraint puts one out.


def head_words(choice: Choice) -> str:
    """The answer in one sentence."""
    where, names = f"{choice.devices} × {choice.device.name}", [clean(name, 60) for name in choice.best]
    if not names:
        return f"No model is left on {where}: each breaks a constraint."
    if len(names) == 1:
        return f"{names[0]} on {where}: of what keeps the constraints nothing is better on any axis."
    return f"{len(names)} models are left on {where}, each better than the others on some axis: {', '.join(names)}."


def remark_words(one: Candidate, choice: Choice) -> str:
    """Why it is out, or what beats it."""
    if one.against:
        return clause_of(one.against[0])
    by = next((other for name, other in choice.beaten if name == one.name), None)
    return "" if by is None else f"beaten by {clean(by, 40)}"
