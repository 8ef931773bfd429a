"""Document of a question to one's runs: what answers it, what differs in the rest, and the run that is missing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from twinlens.comparison.answering import LENS, Candidate, Limited, Unlike
from twinlens.reporting import display
from twinlens.reporting.document.block import Block, Document, Line, More, Tone, row
from twinlens.reporting.wording.comparison import label_of
from twinlens.reporting.wording.finding import label_words

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


# Answers to a question in words: what a point measured against each limit, and in what it is not what was asked.

_NAMES = {"executor.kind": "executor"}
ROLES = {"M": "must match", "V": "may vary", "Q": "qualifies", "C": "context"}


def verdict_words(candidates: Sequence[Candidate]) -> str:
    """ "1 of 3 points answers this: yes." """
    answering = [each for each in candidates if each.standing == "answers"]
    part = sum(each.standing == "in part" for each in candidates)
    total = f"{len(candidates)} point{'' if len(candidates) == 1 else 's'}"
    if not answering:
        return f"No run answers this; {part} of {total} answer{'s' if part == 1 else ''} it in part."
    rulings = {limit.ruling for each in answering for limit in each.limits}
    told = "" if not rulings else ": within the limits" if rulings == {"within"} else ": beyond a limit"
    if {"within", "beyond"} <= rulings:
        told = ": some within the limits, some beyond"
    return f"{len(answering)} of {total} answer{'s' if len(answering) == 1 else ''} this{told}."


def candidate_words(candidate: Candidate) -> str:
    """ "as-served · 2/s: TTFT p50 is 35.2 ms, within 0.5 s; rate per s is 2, not 4 (must match)"."""
    group = candidate.side.group
    parts = [_limit(each) for each in candidate.limits]
    parts += [_unlike(each) for each in candidate.unlike]
    if group.validity != "valid":
        parts.append(f"{group.validity} ({label_words(group.label)})")
    runs = f"{len(group.runs)} run{'' if len(group.runs) == 1 else 's'}"
    return f"{display.clean(candidate.side.name, 80)}: {'; '.join([*parts, runs])}"


def _limit(limited: Limited) -> str:
    name, limit = label_of(limited.metric), f"{limited.limit:g} s"
    if limited.ruling == "not measured":
        return f"{name} is not measured ({display.clean(limited.measured.reason or '', 120)})"
    how = {"within": f"within {limit}", "beyond": f"beyond {limit}", "undecided": f"too close to {limit} to tell"}
    return f"{name} is {display.value(limited.measured)}, {how[limited.ruling]}"


def _unlike(unlike: Unlike) -> str:
    name = _NAMES.get(unlike.path) or unlike.path.rpartition(".")[2].replace("_", " ")
    wanted, has = unlike.wanted, unlike.has
    if isinstance(wanted, dict) and isinstance(has, dict) and wanted.get("kind") == has.get("kind"):
        names = [key for key in dict.fromkeys((*wanted, *has)) if wanted.get(key) != has.get(key)]
        wanted, has = ({key: each.get(key) for key in names} for each in (wanted, has))
    return f"{name}: {_shown(has)}, not {_shown(wanted)} ({ROLES[unlike.role]})"


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        fixed = value.get("kind") == "fixed" and value.get("value") is not None
        parts = (f"{key} {_shown(item)}" for key, item in value.items() if item is not None)
        return _shown(value["value"]) if fixed else display.clean(", ".join(parts), 60) or "not set"
    if value is None or isinstance(value, bool):
        return "not set" if value is None else "yes" if value else "no"
    return display.clean(f"{value:g}" if isinstance(value, float) else str(value), 60)
