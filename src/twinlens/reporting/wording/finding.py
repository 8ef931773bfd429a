"""Findings in words: a sentence, a clause, a label of two words, and what to try.

The words of a finding stand in the head of its page (`pages`), as a template whose parts with logic are functions of
this package: `{=serving.lost}`. Only the page and the module of the finding are loaded.
"""

from __future__ import annotations

from typing import Any

from twinlens.pages import own_page, section, wordings
from twinlens.record.codec import decode
from twinlens.record.finding import Finding
from twinlens.reporting.display import clean
from twinlens.reporting.wording.number import named_by
from twinlens.reporting.wording.template import Form, filled, holds

_ENDS = (".", "!", "?", "…")
_TO_DO = ("What to do", "What to try")
"""Heads of a page's advice: of a finding, and of a rule of diagnosis."""


def sentence_of(finding: Finding) -> str:
    """The finding as one sentence that is safe to show; a code of a newer version gives a general one."""
    text = _made(finding, "sentence", "clause")
    if text is None:
        about = f" ({named_by(finding)})" if finding.subject else ""
        weight = {"disqualifies": "so the run is not valid", "warns": "read it with care"}.get(finding.severity)
        text = f"A check found {finding.code!r}{about}{f': {weight}' if weight else ''}."
    text = clean(text, 600)
    text = text if _has(finding.code, "sentence") else text[:1].upper() + text[1:]
    return text if text[-1:] in _ENDS else f"{text}."


def clause_of(finding: Finding) -> str:
    """The same without a full stop, to stand in brackets or after a colon."""
    text = _made(finding, "clause", "sentence")
    text = clean(short(finding.code) if text is None else text, 600)
    return text[:-1] if text.endswith(".") else text


def advice_of(finding: Finding) -> str:
    """Advice in a sentence or two: the opening of "What to do" of its page, unless the head of a page says another.

    "" where nothing can be done, and for a code of a newer version.
    """
    if advice := _made(finding, "advice"):
        return clean(advice, 600)
    page = own_page(finding.code)
    advice = "" if page is None else next(filter(None, (section(page, head) for head in _TO_DO)), "")
    return "" if advice == "Nothing." else advice


def with_words(data: Any) -> Any:
    """The same JSON value with `text` and `advice` in each finding, however deep; the finding's own keys stay."""
    if isinstance(data, list | tuple):
        return [with_words(item) for item in data]
    if not isinstance(data, dict):
        return data
    inner = {key: with_words(item) for key, item in data.items()}
    if not {"code", "severity", "numbers"} <= data.keys():
        return inner
    finding = decode(Finding, data)
    return inner | {"text": sentence_of(finding), "advice": advice_of(finding)}


def short(code: str) -> str:
    """A code as a label of two or three words: "SLO missed"."""
    words = [*clean(code, 40).split("-")]
    return " ".join(["SLO" if words[0] == "slo" else words[0], *words[1:]])


def verdict_word(label: str) -> str:
    """The word of a first screen for why something is not valid: too short, unsteady, client-limited or failed."""
    parts = (_VERDICTS.get(part, "failed") for part in label.split(" / "))
    return ", ".join(dict.fromkeys(parts))


_UNSTEADY = ("drift", "slowdown", "cyclic", "disturbed", "no steady state", "inconsistent", "overload", "unproven")
_VERDICTS = dict.fromkeys(_UNSTEADY, "unsteady") | {
    "too short": "too short", "invalid": "client-limited", "client-limit": "client-limited",
    "flat": "valid", "warm-up": "valid", "whole run": "valid",
}  # fmt: skip


def label_words(label: str) -> str:
    """A label of a run or a group in words: "warm-up" is a run that became steady after one."""
    words = {"flat": "steady", "warm-up": "steady after warm-up"}
    parts = (
        words.get(part) or (short(part) if _has(part, "sentence") else clean(part, 60)) for part in label.split(" / ")
    )
    return " / ".join(dict.fromkeys(parts))


def _has(code: str, kind: str) -> bool:
    return any(wording.kind == kind for wording in wordings(code))


def _made(finding: Finding, *kinds: str) -> str | None:
    """The text of the first of these kinds that the code has; None where it has none for these numbers."""
    kind = next((kind for kind in kinds if _has(finding.code, kind)), "")
    try:
        fitting = (each.text for each in wordings(finding.code) if each.kind == kind and holds(each.where, finding))
        text = next(fitting, None)
        is_plain = text is None or (kind == "advice" and not text.startswith("{="))
        return text if is_plain else filled(str(text), finding, _OF_FINDINGS)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError):
        return None  # numbers that the sentence does not know: of another version, or edited by hand


_OF_FINDINGS: dict[str, Form] = {
    "clause": lambda reasons: clause_of(reasons[0]),
    "clauses": lambda reasons: "; ".join(map(clause_of, reasons)),
    "sentences": lambda reasons: " ".join(map(sentence_of, reasons)),
    "label": label_words,
}
"""Forms of what a finding rests on, and of the label of a run."""
