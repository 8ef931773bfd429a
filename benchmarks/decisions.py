"""The index of decisions by room: `python -m benchmarks.decisions` writes docs/decisions/README.md from the pages.

A page opens with two lines between `---`: `room:`, the package that it is most about, or `project`; and `status:`,
which is `accepted`, `superseded by 0123` or `superseded in part by 0123`.
"""

from __future__ import annotations

import re
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from benchmarks.columns import folded
from benchmarks.sizes import sizes

FOLDER = Path(__file__).parents[1] / "docs" / "decisions"
_PAGE = re.compile(
    r"---\nroom: (\w+)\nstatus: (accepted|superseded (?:in part )?by (\d{4}(?:, \d{4})*))\n---\n# (\d{4}) · (.+)\n"
)
_HEAD = """# Decisions

Each page says what was decided, why, instead of what, and at what price. They are sorted by room: the package that a
page is most about, in the order of the layers, the lowest first. A page that is superseded stays, for its reasons.
Written by `python -m benchmarks.decisions` (`make reference`) from the heads of the pages.

A number is given once. 0029 was given twice on one day, and its pages are [0027](0027-one-api.md) and
[0032](0032-the-first-screen.md) since. No page has ever had {gaps}: pages that are written side by side get their
numbers beforehand, and not each comes to be.
"""


class Decision(NamedTuple):
    """One page, as its head says."""

    number: int
    room: str
    status: str
    by: tuple[int, ...]
    title: str
    name: str


def decisions() -> list[Decision]:
    """Every decision, by number. Raises ValueError for a page whose head does not say room, status and title."""
    found = []
    for path in sorted(FOLDER.glob("[0-9]*.md")):
        head = _PAGE.match(path.read_text(encoding="utf-8"))
        if head is None or head[4] != path.name[:4]:
            raise ValueError(f"{path.name} opens with `---`, `room: …`, `status: …`, `---` and `# {path.name[:4]} · …`")
        by = tuple(int(number) for number in (head[3] or "").split(", ") if number)
        found.append(Decision(int(head[4]), head[1], head[2], by, head[5], path.name))
    return found


def rooms() -> list[str]:
    """What a decision may be about, in the order of the layers: the lowest first."""
    text = (FOLDER.parents[1] / "pyproject.toml").read_text(encoding="utf-8")
    layers = re.findall(r"\w+", " ".join(reversed(text.split("layers = [\n")[1].split("\n]")[0].splitlines())))
    return ["project", *(name for name in layers if name in sizes())]


def index() -> str:
    """The page that lists all others."""
    found = decisions()
    order = rooms()
    gaps = sorted(set(range(1, found[-1].number)) - {29, *(each.number for each in found)})
    parts = [_HEAD.format(gaps=_listed(gaps))]
    by_room = sorted(found, key=lambda each: (order.index(each.room), each.number))
    for room, inside in groupby(by_room, key=lambda each: each.room):
        parts += [f"\n## {room}\n\n", *map(_line, inside)]
    return folded("".join(parts))


def _line(each: Decision) -> str:
    status = "" if each.status == "accepted" else f" ({each.status})"
    return f"- [{each.number:04d}]({each.name}) {each.title}{status}\n"


def _listed(numbers: list[int]) -> str:
    """Numbers as words of a sentence, those in a row as "0103 to 0105"."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][-1] == number - 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    words = [f"{run[0]:04d}" + (f" to {run[-1]:04d}" if len(run) > 1 else "") for run in runs]
    return " or ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


if __name__ == "__main__":
    (FOLDER / "README.md").write_text(index(), encoding="utf-8")
