"""Lines of the documentation have at most 140 letters: `python -m benchmarks.columns` folds paragraphs that are wider.

A row of a table, a block of code, a head and a word stay whole: Markdown cannot break them. Pages that a benchmark
writes go through `folded` first; `tests/pages/test_docs.py` holds every page to it.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from pathlib import Path

WIDTH = 140
ROOT = Path(__file__).parents[1]
_FENCE = re.compile(r"\s*(```|~~~)")
_ITEM = re.compile(r"(\s*)([-*+]|\d+[.)])(\s+)")
_WHOLE = re.compile(r"\s*(\||#|<|\[[^\]]+\]:)")  # rows, heads, HTML, where a link leads
_CODE = re.compile(r"`[^`\n]{1,110}`")
_MARK = re.compile(r"^(?:[-+*>=|#]+|\d+[.)])$")  # at the beginning of a line this would be read as markup
_GLUE = "\0"


def put(text: str, place: Path, *, save: bool) -> None:
    """Print a page that a benchmark made, or write it, its paragraphs folded."""
    if save:
        place.write_text(folded(text), encoding="utf-8")
    else:
        print(text, end="")


def pages() -> list[Path]:
    """Every page of the documentation that is held to the width, sorted."""
    rooms = ("docs", "benchmarks", "changelog.d", "tests", "src/twinlens/pages")
    found = {path for room in rooms for path in (ROOT / room).rglob("*.md")}
    return sorted(found | {ROOT / "README.md", ROOT / "CONTRIBUTING.md"})


def folded(text: str) -> str:
    """The text with the paragraphs filled again that have a line beyond the width; all others stay as they are."""
    told: list[str] = []
    for block, whole in _blocks(text):
        wide = any(len(line) > WIDTH for line in block)
        told += _filled(block) if wide and not whole else block
    return "\n".join(told) + ("\n" if text.endswith("\n") else "")


def _blocks(text: str) -> Iterator[tuple[list[str], bool]]:
    """Paragraphs and items of lists, each line by line, and everything else, which is whole, one line at a time."""
    block: list[str] = []
    lines = text.splitlines()
    head = lines.index("---", 1) + 1 if lines[:1] == ["---"] and "---" in lines[1:] else 0
    fence = ""
    for number, line in enumerate(lines):
        mark = _FENCE.match(line)
        whole = number < head or bool(fence) or mark is not None or not line.strip() or bool(_WHOLE.match(line))
        if mark and (not fence or fence == mark[1]):
            fence = "" if fence else mark[1]
        if block and (whole or _ITEM.match(line)):
            yield block, False
            block = []
        if whole:
            yield [line], True
        else:
            block.append(line)
    if block:
        yield block, False


def _filled(block: list[str]) -> list[str]:
    item = _ITEM.match(block[0])
    first = item[0] if item else block[0][: len(block[0]) - len(block[0].lstrip())]
    rest = " " * len(first)
    words = " ".join([block[0].removeprefix(first), *(line.strip() for line in block[1:])])
    words = _CODE.sub(lambda code: code[0].replace(" ", _GLUE), words)
    tokens = words.split(" ")
    glued = "".join(_GLUE + word if _MARK.match(word) else f" {word}" for word in tokens).strip()
    lines = textwrap.wrap(
        glued, WIDTH, initial_indent=first, subsequent_indent=rest, break_long_words=False, break_on_hyphens=False
    )
    return [line.replace(_GLUE, " ") for line in lines]


if __name__ == "__main__":
    for page in pages():
        before = page.read_text(encoding="utf-8")
        if (after := folded(before)) != before:
            page.write_text(after, encoding="utf-8")
            print(page.relative_to(ROOT))
