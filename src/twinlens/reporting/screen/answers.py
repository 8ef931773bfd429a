"""A question to one's runs on one screen: what answers it, what differs in the rest, and the run that is missing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Group as Stack
from rich.console import RenderableType
from rich.text import Text

from twinlens.comparison.answering import Candidate
from twinlens.comparison.question import LENS
from twinlens.reporting.text.footnote import hanging
from twinlens.reporting.wording.answers import candidate_words, verdict_words

_MARKS = {"answers": ("✓ ", "green"), "in part": ("~ ", "yellow"), "no answer": ("✗ ", "dim")}
_MOST = {"answers": 6, "in part": 4, "no answer": 3}


def answers_screen(candidates: Sequence[Candidate]) -> RenderableType:
    """The verdict, and the nearest points of each standing."""
    return Stack(*_lines(candidates))


def _lines(candidates: Sequence[Candidate]) -> Iterator[RenderableType]:
    yield hanging("", verdict_words(candidates), "bold")
    of_lens = [each for each in candidates if not any(one.path == LENS for one in each.unlike)]
    for standing, most in _MOST.items():
        chosen = [each for each in of_lens if each.standing == standing]
        mark, style = _MARKS[standing]
        for each in chosen[:most]:
            yield hanging(mark, candidate_words(each), style)
        if len(chosen) > most:
            yield Text(f"  … and {len(chosen) - most} more: --json has them", style="dim")
    if others := len(candidates) - len(of_lens):
        yield Text(f"✗ {others} point{' is' if others == 1 else 's are'} of the other lens", style="dim")
