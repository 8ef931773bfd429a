"""A document as Markdown, whole, for a notebook, a pull request or a page of documentation."""

from __future__ import annotations

from collections.abc import Iterator

from twinlens.reporting.display import escaped
from twinlens.reporting.document.block import (
    Arithmetic,
    Bars,
    Block,
    Document,
    Fold,
    Letters,
    Line,
    Row,
    Shares,
    Table,
    Title,
)
from twinlens.reporting.wording.plan import figure_words

_SIGNS = {"✗": "❌ ", "!": "⚠️ ", "·": ""}
"""Marks of one letter, as a pull request shows them."""


def markdown(document: Document, *, head: bool = True) -> str:
    """Headings, sentences, lists and tables; whatever a name holds is text and never markup.

    `head`: with title and subject, which a pull request does without.
    """
    heads = [f"# {escaped(document.title)}", escaped(document.subject)] if head else []
    return "\n\n".join([*heads, *(part for each in document.blocks for part in _parts(each))]) + "\n"


def _parts(block: Block) -> Iterator[str]:
    match block:
        case Title():
            yield f"## {escaped(block.text)}"
        case Letters():
            yield "\n".join(["```text", *block.lines, "```"])
        case Line():
            text = escaped(block.text)
            yield f"**{text}**" if block.is_lead else text
        case Row():
            clauses = [escaped(each) for each in block.clauses]
            if block.mark in _SIGNS:
                yield "\n".join(f"- {_SIGNS[block.mark]}{each}" for each in clauses)
                return
            mark = f"**{escaped(block.mark.strip())}**: " if block.mark else ""
            yield mark + "; ".join(clauses) if len(clauses) < 2 else "\n".join([mark, *(f"- {one}" for one in clauses)])
        case Table():
            yield _table(block)
        case Shares():
            parts = [f"- {escaped(f'{each.name} {each.shown}')}" for each in block.parts]
            yield "\n".join([f"**{escaped(block.mark)}**: {escaped(block.what)}", *parts])
        case Fold():
            yield "\n".join(f"- **{escaped(head)}**: {escaped(text)}" for head, text in block.entries)
        case Bars() if block.is_drawn:
            yield "\n".join(f"- {escaped(each.name)}: {escaped(each.shown)}" for each in block.bars)
        case Arithmetic():
            lines = [f"- {escaped(name)}: {escaped(figure_words(figure))}" for name, figure in block.whole]
            if lines:
                yield "\n".join([f"**{escaped(block.mark)}**: ", *lines])


def _table(table: Table) -> str:
    heads = [escaped(each.replace("\n", " ")) for each in table.heads]
    sides = table.sides or ("left", *["right"] * (len(heads) - 1))
    rule = ["---:" if side == "right" else "---" for side in sides]
    rows = [[escaped(cell.text.strip()) for cell in row] for row in table.rows]
    return "\n".join([f"{escaped(table.caption)}\n", *(f"| {' | '.join(each)} |" for each in (heads, rule, *rows))])
