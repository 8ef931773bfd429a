"""Findings in words: one plain sentence a code. The only place that makes English of a finding."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twinlens.record.finding import Finding
from twinlens.report.cell import clean
from twinlens.stats.metrics.definition import METRICS
from twinlens.units import BYTES, digits, show

Sentence = Callable[[Finding], str]


def finding_text(finding: Finding) -> str:
    """What was found, as one sentence safe to show. A code of a newer version, or numbers that its sentence does not

    know, give a general sentence: a summary can always be read.
    """
    try:
        return clean(SENTENCES[finding.code](finding), 400)
    except (KeyError, TypeError, ValueError, AttributeError):
        about = f" ({_subject(finding)})" if finding.subject else ""
        weight = {"disqualifies": "so the run is not ranked", "warns": "read it with care"}.get(finding.severity)
        return clean(f"A check found {finding.code!r}{about}{f': {weight}' if weight else ''}.", 400)


def short(code: str) -> str:
    """A code as a label of two or three words: "SLO missed"."""
    words = clean(code, 40).replace("-", " ")
    return f"SLO{words[3:]}" if words.startswith("slo ") else words


def _subject(finding: Finding) -> str:
    """What a finding is about: the label of a metric, else as it stands."""
    return METRICS[finding.subject].label if finding.subject in METRICS else finding.subject


def _number(finding: Finding, name: str) -> Any:
    found = finding.numbers[name]
    if found is None:
        raise ValueError(f"{name} is not known")
    return found


def _precision_differs(finding: Finding) -> str:
    declared, observed, evidence = (_number(finding, name) for name in ("declared", "observed", "evidence"))
    return f"{finding.subject} was declared as {declared} and ran as {observed} ({evidence})."


def _guard_failed(finding: Finding) -> str:
    return f"The guard {finding.subject!r} failed: {str(_number(finding, 'reason')).rstrip('.')}."


def _cause(finding: Finding) -> str:
    doing, amount = _DOING[finding.subject]
    slow = amount(_number(finding, "slow"))
    if finding.numbers["how"] == "throughout":
        return f"A possible cause: {doing.format(slow)} throughout."
    calm, share = amount(_number(finding, "calm")), _number(finding, "share")
    return f"Cause: {doing.format(slow)} while rows were slow ({calm} otherwise); {_percent(share)} of the lost time."


def _no_cause_found(finding: Finding) -> str:
    samples = _number(finding, "samples")
    if not samples:
        return "No cause found: the machine was not sampled while the run went on."
    return f"No cause found: nothing in {samples} samples of the machine went with the slow moments."


def _shared_machine(finding: Finding) -> str:
    share = _percent(_number(finding, "share"))
    return f"Other programs used {share} of the processors all the while: the figures are those of a shared machine."


def _throttled(finding: Finding) -> str:
    share = _percent(_number(finding, "share"))
    return f"The accelerator was throttled ({finding.subject}) in {share} of the steady window."


def _retaken(finding: Finding) -> str:
    attempt = _number(finding, "attempt")
    return f"Attempt {attempt}: other programs disturbed the {'one' if attempt == 2 else 'ones'} before; all are kept."


def _percent(share: float) -> str:
    return f"{digits(100 * share, 2)} %"


_DOING: dict[str, tuple[str, Callable[[float], str]]] = {
    "other-programs": ("other programs used {} of the processors", _percent),
    "steal": ("the hypervisor gave {} of the processors to others", _percent),
    "quota": ("the container's processor quota held it back for {} of the time", _percent),
    "clock": ("the processor ran at {}", lambda mhz: f"{mhz:.0f} MHz"),
    "gpu-clock": ("the accelerator ran at {}", lambda mhz: f"{mhz:.0f} MHz"),
    "throttling": ("the accelerator was throttled for {} of the time", _percent),
    "temperature": ("the accelerator was at {}", lambda celsius: f"{celsius:.0f} °C"),
    "swapping": ("the machine swapped {} a sample", lambda size: show(size, BYTES, 2)),
    "page-faults": ("{} pages a sample had to come from storage", lambda faults: digits(faults, 2)),
    "storage": ("{} a sample were read from storage", lambda size: show(size, BYTES, 2)),
    "garbage-collection": ("garbage collection took {} of the time", _percent),
    "compile": ("kernels were compiled for {} of the time", _percent),
}
"""What a source did, and how its amount is written."""


SENTENCES: dict[str, Sentence] = {
    "cause": _cause,
    "no-cause-found": _no_cause_found,
    "shared-machine": _shared_machine,
    "throttled": _throttled,
    "retaken": _retaken,
    "precision-differs": _precision_differs,
    "guard-failed": _guard_failed,
}
"""A new finding is a line here, and a page `pages/findings/CODE.md`."""
