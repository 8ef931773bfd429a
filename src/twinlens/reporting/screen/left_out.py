"""The last line of a list that was cut: how many more there are, and which option shows them."""

from __future__ import annotations

from rich.text import Text


def left_out(count: int, one: str, where: str = "--all") -> list[Text]:
    """ "… 2 more findings: --all"; nothing where nothing is left out. `one`: a noun, with what follows it."""
    noun, _, rest = one.partition(" ")
    words = one if count == 1 else " ".join(filter(None, [f"{noun}s", rest]))
    return [Text(f"… {count} more {words}: {where}", style="dim")] if count > 0 else []
