"""Document of `plan checkpoint`: the best time between two saves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from twinlens.planning.checkpoint import SavePlan
from twinlens.record.finding import Finding
from twinlens.reporting.document.block import Arithmetic, Block, Document, Line, row
from twinlens.reporting.wording.finding import clause_of, sentence_of
from twinlens.reporting.wording.plan_checkpoint import head_words, input_line, kept_words


def checkpoint_document(answer: SavePlan, notes: Sequence[Finding] = ()) -> Document:
    return Document.of("Plan: checkpoint", "How often to save.", _blocks(answer, notes))


def _blocks(answer: SavePlan, notes: Sequence[Finding]) -> Iterator[Block]:
    yield Line(head_words(answer), is_lead=True)
    yield row("goodput", [kept_words(answer)])
    yield row("from", [input_line(each) for each in answer.kept.inputs[1:]], apart=True)
    yield row("formula", [sentence_of(note) for note in answer.notes()], apart=True)
    figures = tuple(answer.figures())
    yield Arithmetic(figures, (), tuple((each.name.replace("-", " "), each) for each in figures))
    yield row("assumed", [clause_of(each) for each in notes], "dim")
