"""Document of a question to one's runs: what answers it, what differs in the rest, and the run that is missing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from twinlens.comparison.answering import LENS, Candidate
from twinlens.reporting.document.block import Block, Document, Line, More, Tone, row
from twinlens.reporting.wording.answers import candidate_words, verdict_words

_MARKS: dict[str, tuple[str, Tone]] = {"answers": ("✓", "good"), "in part": ("~", "doubt"), "no answer": ("✗", "dim")}
_MOST = {"answers": 6, "in part": 4, "no answer": 3}


def answers_document(candidates: Sequence[Candidate]) -> Document:
    """The verdict, and the nearest points of each standing."""
    return Document.of("Which runs answer it", verdict_words(candidates), _blocks(candidates))


def _blocks(candidates: Sequence[Candidate]) -> Iterator[Block]:
    yield Line(verdict_words(candidates), is_lead=True)
    of_lens = [each for each in candidates if not any(one.path == LENS for one in each.unlike)]
    for standing, most in _MOST.items():
        chosen = [candidate_words(each) for each in of_lens if each.standing == standing]
        mark, tone = _MARKS[standing]
        yield row(mark, chosen, tone, apart=True, first=most)
        yield More(f"… and {len(chosen) - most} more: --json has them" if len(chosen) > most else "")
    others = len(candidates) - len(of_lens)
    yield row("✗", [f"{others} point{' is' if others == 1 else 's are'} of the other lens" if others else ""], "dim")
