"""Findings in words: a sentence, a clause, a label of two words, and what to try."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from twinlens.record.codec import decode
from twinlens.record.finding import IN_WORDS, Finding
from twinlens.reporting.display import clean
from twinlens.reporting.wording import (
    claim,
    client,
    comparison,
    compliance,
    diagnosis,
    executor,
    falsifier,
    machine,
    pack,
    paired,
    parallel,
    plan,
    plan_checkpoint,
    plan_choose,
    plan_method,
    plan_model,
    plan_quotes,
    quality,
    quantise,
    region,
    remedy,
    saves,
    scaling,
    search,
    server,
    serving,
    steadiness,
    tables,
    trainer_log,
)
from twinlens.reporting.wording.advice import ADVICE, OF_CAUSE
from twinlens.reporting.wording.number import number, numbers, subject_of

Sentence = Callable[[Finding], str]
_ENDS = (".", "!", "?", "…")


def sentence_of(finding: Finding) -> str:
    """The finding as one sentence that is safe to show; a code of a newer version gives a general one."""
    text = _made(finding, SENTENCES, CLAUSES)
    if text is None:
        about = f" ({subject_of(finding)})" if finding.subject else ""
        weight = {"disqualifies": "so the run is not valid", "warns": "read it with care"}.get(finding.severity)
        text = f"A check found {finding.code!r}{about}{f': {weight}' if weight else ''}."
    text = clean(text, 600)
    text = text if finding.code in SENTENCES else text[:1].upper() + text[1:]
    return text if text[-1:] in _ENDS else f"{text}."


def clause_of(finding: Finding) -> str:
    """The same without a full stop, to stand in brackets or after a colon."""
    text = _made(finding, CLAUSES, SENTENCES)
    text = clean(short(finding.code) if text is None else text, 600)
    return text[:-1] if text.endswith(".") else text


def advice_of(finding: Finding) -> str:
    """Advice as one sentence; "" if nothing can be done, and for a code of a newer version."""
    of_cause = OF_CAUSE.get(finding.subject) if finding.code == "cause" else None
    return of_cause or serving.advice_on_lost(finding) or remedy.remedy_of(finding) or ADVICE.get(finding.code, "")


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
    parts = (words.get(part) or (short(part) if part in SENTENCES else clean(part, 60)) for part in label.split(" / "))
    return " / ".join(dict.fromkeys(parts))


def _made(finding: Finding, first: Mapping[str, Sentence], then: Mapping[str, Sentence]) -> str | None:
    make = first.get(finding.code) or then.get(finding.code)
    try:
        return make(finding) if make else None
    except (KeyError, TypeError, ValueError, AttributeError, IndexError):
        return None  # numbers that the sentence does not know: of another version, or edited by hand


def _reasons(finding: Finding) -> str:
    if not finding.because:
        raise ValueError("nothing is said of why")
    return " ".join(map(sentence_of, finding.because))


def _client_limit(finding: Finding) -> str:
    return f"The client was at its limit, so its delays cannot be separated from the server's: {_reasons(finding)}"


def _guard_failed(finding: Finding) -> str:
    return f"The guard {finding.subject!r} failed: {clause_of(finding.because[0])}."


def _no_go(finding: Finding) -> str:
    if not finding.because:
        raise ValueError("no limit is named")
    return f"The fidelity gate says no-go: {'; '.join(map(clause_of, finding.because))}."


def _labelled(finding: Finding) -> str:
    return f"{number(finding, 'label')}: {clause_of(finding.because[0])}"


def _was_overloaded(finding: Finding) -> str:
    return f"an earlier run was in overload; {clause_of(finding.because[0])}"


def _client_was_the_limit(finding: Finding) -> str:
    return f"the client was the limit, not the server: {_reasons(finding)}"


def _side_not_ranked(finding: Finding) -> str:
    side, name, state, label = numbers(finding, "side", "name", "state", "label")
    what = label_words(label) if state == "finished" else state
    why = f" ({clause_of(finding.because[0])})" if finding.because else ""
    return f"{side} ({name}) is not valid: {what}{why}."


def _entry_not_ranked(finding: Finding) -> str:
    state, label = numbers(finding, "state", "label")
    why = f" ({clause_of(finding.because[0])})" if finding.because else ""
    return f"Not valid: {label_words(label) if state == 'finished' else state}{why}."


CLAUSES: dict[str, Sentence] = {
    **remedy.CLAUSES,
    **steadiness.CLAUSES,
    **serving.CLAUSES,
    **quality.CLAUSES,
    **compliance.CLAUSES,
    **paired.CLAUSES,
    **search.CLAUSES,
    **claim.CLAUSES,
    **scaling.CLAUSES,
    **plan.CLAUSES,
    **plan_choose.CLAUSES,
    **plan_method.CLAUSES,
    **plan_model.CLAUSES,
    **plan_quotes.CLAUSES,
    **quantise.CLAUSES,
    "label-decides": _labelled,
    "overload-before": _was_overloaded,
    "search-client-limit": _client_was_the_limit,
    "client-limit": _reasons,
    IN_WORDS: lambda finding: str(number(finding, "text")),
}
"""Clauses, for brackets or after a colon: reasons of labels, of checks, and of answers."""
SENTENCES: dict[str, Sentence] = {
    **steadiness.SENTENCES,
    **serving.SENTENCES,
    **client.SENTENCES,
    **server.SENTENCES,
    **machine.SENTENCES,
    **quality.SENTENCES,
    **executor.SENTENCES,
    **comparison.SENTENCES,
    **diagnosis.SENTENCES,
    **falsifier.SENTENCES,
    **remedy.SENTENCES,
    **scaling.SENTENCES,
    **parallel.SENTENCES,
    **saves.SENTENCES,
    **plan_checkpoint.SENTENCES,
    **region.SENTENCES,
    **tables.SENTENCES,
    **trainer_log.SENTENCES,
    **quantise.SENTENCES,
    **claim.SENTENCES,
    **pack.SENTENCES,
    "side-not-ranked": _side_not_ranked,
    "entry-not-ranked": _entry_not_ranked,
    "client-limit": _client_limit,
    "guard-failed": _guard_failed,
    "fidelity-failed": _no_go,
}
"""Sentences that stand by themselves. A new finding is a line in the file of its subject, and a page
`pages/findings/CODE.md`."""
