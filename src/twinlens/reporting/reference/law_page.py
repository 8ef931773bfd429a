"""Pages of laws, made of their rows: `twinlens explain LAW`, `twinlens list laws`, and their table in the reference."""

from __future__ import annotations

from collections.abc import Iterator

from twinlens.theory.law import LAWS, QUANTITIES, USUAL, Law


def law_page(word: str) -> str | None:
    """The page of a law by its name or its title, as Markdown; None for another word."""
    asked = " ".join(word.casefold().split())
    law = LAWS.get(asked) or next((each for each in LAWS.values() if each.title.casefold() == asked), None)
    return None if law is None else f"# {law.title}\n\nA relation of theory.\n\n{law_part(law)}"


def law_part(law: Law) -> str:
    """Formula, inputs and source of a law, without a title."""
    rows = (f"| {name} | {QUANTITIES[name]} | {_left_out(name)} |" for name in law.inputs)
    verbs = f" Used by: {law.verbs}." if law.verbs else ""
    return "\n".join((
        f"    {law.name} = {law.text}    [{law.unit}]\n",
        "| input | unit | left out |", "|---|---|---|", *rows, "",
        f"Source: {law.source}.{verbs} `twinlens list laws` has all.\n",
    ))  # fmt: skip


def law_rows() -> list[dict[str, str]]:
    """One row a law, as `list laws` shows them."""
    return [{"law": law.name, "unit": law.unit, "formula": law.text} for law in LAWS.values()]


def law_table() -> Iterator[str]:
    """The lines of their table in the reference."""
    yield from ("| law | gives | formula | source | used by |", "|---|---|---|---|---|")
    for law in LAWS.values():
        yield f"| `{law.name}` | {law.title}, {law.unit} | {law.text} | {law.source} | {law.verbs} |"


def _left_out(name: str) -> str:
    return f"{USUAL[name]:g}" if name in USUAL else ""
