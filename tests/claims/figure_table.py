"""docs/figures.md from tests/vectors/figures.toml: every figure with its rulings. Run it to write the page again."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "figures.md"
FIGURES: list[dict[str, Any]] = tomllib.loads((ROOT / "tests" / "vectors" / "figures.toml").read_text("utf-8"))[
    "figure"
]
_HEAD = """# Forty figures, computed again

Figures that articles publish, each put as sentences to [`twinlens claim`](../src/twinlens/pages/terms/claim.md).
A test holds every ruling and every value to what was worked out by hand (`tests/vectors/figures.toml`, from which
`python tests/claims/figure_table.py` makes this page).

"""


def page() -> str:
    """The page: a part for each figure, its sentences with their rulings, and where a difference comes from."""
    computed = [figure for figure in FIGURES if "claims" in figure]
    sentences = sum(len(each["claims"]) for each in computed)
    counts = f"{len(computed)} of {len(FIGURES)} can be computed, in {sentences} sentences.\n"
    lines = [_HEAD + counts, "| N | published | put as | ruling | why |", "|---|---|---|---|---|"]
    for figure in FIGURES:
        said = (str(figure["n"]), figure["said"])
        if "reason" in figure:
            lines.append(_row(*said, "", "*not computable*", figure["reason"]))
        for place, (sentence, ruling, _) in enumerate(figure.get("claims", ())):
            first = place == 0
            lines.append(
                _row(*(said if first else ("", "")), sentence, f"**{ruling}**", figure["why"] if first else "")
            )
    return "\n".join(lines) + "\n"


def _row(*cells: str) -> str:
    return f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
