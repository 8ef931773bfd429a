"""A document as Markdown, whole, for a notebook, a pull request or a page of documentation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from twinlens.reporting.display import escaped
from twinlens.reporting.document.block import (
    Arithmetic,
    Bars,
    Beside,
    Block,
    Box,
    Cell,
    Document,
    Fold,
    Letters,
    Line,
    Notes,
    Row,
    Section,
    Shares,
    Table,
    Terms,
    Title,
    whole,
)
from twinlens.reporting.text.footnote import Footnotes
from twinlens.reporting.wording.planned.plan import lawful_words

_SIGNS = {"✗": "❌ ", "!": "⚠️ ", "·": "", "✓": "✅ ", "~": "", "→": ""}
"""Marks of one letter, as a pull request shows them."""


def markdown(document: Document, *, head: bool = True) -> str:
    """Headings, sentences, lists and tables; whatever a name holds is text and never markup.

    `head`: with title and subject, which a pull request does without.
    """
    subject = "\n".join(map(escaped, document.subject.splitlines()))
    heads = [f"# {escaped(document.title)}", subject, *filter(None, [escaped(document.extent)])] if head else []
    return "\n\n".join([*heads, *_all(document.blocks, Footnotes())]) + "\n"


def _all(blocks: Sequence[Block], notes: Footnotes) -> Iterator[str]:
    for each in whole(blocks):
        yield from _parts(each, notes)


def _parts(block: Block, notes: Footnotes) -> Iterator[str]:
    match block:
        case Notes():
            since = notes.since()
            yield from ["\n".join(f"- [{place}] {escaped(each)}" for place, each in since)] if since else []
        case Section():
            body = "\n\n".join(_all(block.blocks, notes))
            yield f"<details><summary>{escaped(block.text)}</summary>\n\n{body}\n\n</details>"
        case Box():
            yield from (f"## {escaped(block.text)}", *_all(block.blocks, notes))
        case Beside():
            yield from _all(block.boxes, notes)
        case Terms():
            yield "\n".join(f"- **{escaped(', '.join(name for _, name, _ in each.names))}**: {escaped(each.text)}"
                            for each in block.terms)  # fmt: skip
        case Title():
            yield f"{'#' * block.level} {escaped(block.text)}"
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
            yield _table(block, notes)
        case Shares():
            parts = [f"- {escaped(f'{each.name} {each.shown}')}" for each in block.parts]
            yield "\n".join([f"**{escaped(block.mark)}**: {escaped(block.what)}", *parts])
        case Fold():
            yield "\n".join(f"- **{escaped(head)}**: {escaped(text)}" for head, text in block.entries)
        case Bars() if block.is_drawn:
            yield "\n".join(f"- {escaped(each.name)}: {escaped(each.shown)}" for each in block.bars)
        case Arithmetic():
            words, laws = lawful_words(block.whole)
            if words:
                read = [f"\n**laws**: {escaped(laws)}"] if laws else []
                yield "\n".join([f"**{escaped(block.mark)}**: ", *(f"- {escaped(each)}" for each in words), *read])


def _table(table: Table, notes: Footnotes) -> str:
    heads = [escaped(each.replace("\n", " ")) for each in (*table.heads, *filter(None, [table.reasons]))]
    sides = table.sides or ("left", *["right"] * (len(table.heads) - 1))
    rule = [*("---:" if side == "right" else "---" for side in sides), *(["---"] if table.reasons else [])]
    rows = [[_cell(cell, notes, bool(table.reasons)) for cell in row] for row in table.rows]
    if table.reasons:
        rows = [[*line, escaped(reasons(row))] for line, row in zip(rows, table.rows, strict=True)]
    caption = [f"{escaped(table.caption)}\n"] if table.caption else []
    return "\n".join([*caption, *(f"| {' | '.join(each)} |" for each in (heads, rule, *rows))])


def _cell(cell: Cell, notes: Footnotes, is_told: bool) -> str:
    mark = notes.mark(cell.why) if cell.why and not is_told else ""
    text = escaped(" ".join(filter(None, (cell.text.strip(), cell.bounds or cell.beside, mark))))
    return f"~~{text}~~" if cell.tone == "struck" and text else text


def reasons(row: Sequence[Cell]) -> str:
    """Why of its cells, in one text."""
    return "; ".join(dict.fromkeys(cell.why for cell in row if cell.why))
