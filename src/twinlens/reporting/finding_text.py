"""Findings in words: one plain sentence a code. The only place that makes English of a finding."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from twinlens.record.finding import Finding
from twinlens.reporting.display import clean
from twinlens.stats.metrics.definition import METRICS
from twinlens.units import BYTES, RATIO, SECONDS, digits, show

Sentence = Callable[[Finding], str]
_IDS = re.compile(rf"\b({'|'.join(map(re.escape, sorted(METRICS, key=len, reverse=True)))})\b")
_LIMITS = {"ttft_s": "TTFT", "tpot_s": "TPOT", "itl_s": "ITL", "e2e_latency_s": "latency"}


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


def standing(label: str) -> str:
    """A label of a run or a group in words: "warm-up" is a run that became steady after one."""
    words = {"flat": "steady", "warm-up": "steady after warm-up"}
    parts = (words.get(part) or (short(part) if part in SENTENCES else clean(part, 60)) for part in label.split(" / "))
    return " / ".join(dict.fromkeys(parts))


def in_words(text: str) -> str:
    """A sentence of the statistics with metric ids replaced by their labels."""
    return _IDS.sub(lambda found: METRICS[found.group()].label, text)


def _subject(finding: Finding) -> str:
    """What a finding is about: the label of a metric or of a limit, else as it stands."""
    if finding.subject in _LIMITS:
        return _LIMITS[finding.subject]
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
    return f"The guard {finding.subject!r} failed: {_words(_number(finding, 'reason'))}."


def _lost(finding: Finding) -> str:
    """ "16 of 29 requests failed: cannot connect: Connection refused", the reasons with their counts."""
    lost, requests = _number(finding, "lost"), _number(finding, "requests")
    kinds = _number(finding, "outcomes")
    words = {"cut_off": "were cut off", "refused": "were refused", "failed": "failed"}
    what = " or ".join(words[kind] for kind in words if kind in kinds)
    given = finding.numbers.get("reasons") or []
    several = len(given) > 1 or sum(count for _, count in given) < lost
    why = "; ".join(f"{f'{count} × ' if several else ''}{clean(word, 120).rstrip('.')}" for word, count in given)
    return f"{lost} of {requests} requests {what}{f': {why}' if why else ''}."


def _server_died(finding: Finding) -> str:
    last_s, after = _number(finding, "last_answer_s"), _number(finding, "after")
    return f"The server was gone after {show(last_s, SECONDS)}, {after} requests before the end. {_lost(finding)}"


def _given_twice(finding: Finding) -> str:
    count = _number(finding, "runs")
    what = "1 run was" if count == 1 else f"{count} runs were"
    return f"{what} given more than once (a copy, or a folder and its child), and each counts once."


def _client_limit(finding: Finding) -> str:
    reasons = [str(one) for one in _number(finding, "reasons")]
    return f"The client was at its limit, so the server cannot be told from it: {' '.join(reasons)}"


def _slo(finding: Finding, lead: str) -> str:
    share, quantile, limit_s = (float(_number(finding, name)) for name in ("share", "quantile", "limit_s"))
    low, high = finding.numbers.get("low"), finding.numbers.get("high")
    known = "" if low is None or high is None else f" (95% interval {100 * low:.3g}–{100 * high:.3g}%)"
    return (
        f"{lead}: {show(share, RATIO)} of requests keep {_subject(finding)} ≤ {show(limit_s, SECONDS)}{known}, "
        f"where {100 * quantile:g}% must."
    )


def _slo_missed(finding: Finding) -> str:
    return _slo(finding, "The SLO is missed")


def _slo_unclear(finding: Finding) -> str:
    return _slo(finding, "The SLO may be missed, measure longer to know")


def _no_go(finding: Finding) -> str:
    return f"The fidelity gate says no-go: {_words(_number(finding, 'reason'))}."


def _diverged(finding: Finding) -> str:
    rows, of, first = (int(_number(finding, name)) for name in ("rows", "of", "first"))
    return f"Training diverged: the loss of {rows:,} of {of:,} rows is no number, from row {first:,} on."


def _target_missed(finding: Finding) -> str:
    return f"The target loss was not reached: {_words(_number(finding, 'reason'))}."


IMPOSSIBLE = (
    "above 100%: its ceiling was measured lower than this run went (a busy neighbour, or a cache), so do not read it "
    "as efficiency"
)


def _impossible_share(finding: Finding) -> str:
    return f"{_subject(finding)} is {show(float(_number(finding, 'share')), RATIO)}, {IMPOSSIBLE}."


def _words(reason: Any) -> str:
    """A reason of the statistics, with labels for ids and without its full stop."""
    return in_words(str(reason)).rstrip(".")


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


def _steps_skipped(finding: Finding) -> str:
    skipped, steps = _number(finding, "skipped"), _number(finding, "steps")
    return f"{skipped:.0f} of {steps:.0f} steps overflowed in fp16 and trained nothing; they count in the rates."


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


def _disturbed(finding: Finding) -> str:
    count, share, effect, factor, begin_s, end_s = (
        _number(finding, name) for name in ("count", "share", "effect", "factor", "begin_s", "end_s")
    )
    times = "once" if count == 1 else f"{count} times"
    return (
        f"The run left its level {times}, for {digits(100 * share, 2)} % of the window: from {digits(begin_s)} to "
        f"{digits(end_s)} s its work took {digits(factor)} times as long. All of it is in the figures and changes them "
        f"by {digits(100 * effect, 2)} %."
    )


def _change_unseen(finding: Finding) -> str:
    visible = digits(100 * _number(finding, "least_visible_change"), 2)
    return f"The run is steady only as far as it could see: a change of less than {visible} % would hardly have shown."


def _empty_slots(finding: Finding) -> str:
    share, slots, slices = (_number(finding, name) for name in ("share", "slots", "slices"))
    return (
        f"The load came in {slices:g} slices that were drained: of its {slots:g} slots "
        f"{digits(100 * share, 2)} % stood empty, which an endless loop would have filled."
    )


def _extended(finding: Finding) -> str:
    times, asked, lasted = (_number(finding, name) for name in ("times", "asked_s", "lasted_s"))
    often = "once" if times == 1 else f"{times} times"
    return (
        f"The run had not settled after {digits(asked)} s and was doubled {often}, to {digits(lasted)} s: when to stop "
        "was chosen by what was seen."
    )


def _rows_scatter(finding: Finding) -> str:
    cv, limit = (digits(100 * _number(finding, name), 2) for name in ("cv", "limit"))
    return f"Row times scatter by {cv} % of their mean, where a quiet machine stays below {limit} %."


def _clock_moves(finding: Finding) -> str:
    cv, mean = 100 * _number(finding, "cv"), _number(finding, "mean_mhz")
    return (
        f"The clock of {finding.subject} moved by {digits(cv, 2)} % around {digits(mean)} MHz inside the steady window."
    )


def _still_warming(finding: Finding) -> str:
    rate, reached = _number(finding, "c_per_min"), _number(finding, "reached_c")
    return (
        f"{finding.subject} still grew warmer by {digits(rate, 2)} °C a minute inside the steady window, up to "
        f"{digits(reached)} °C: heat may not have settled."
    )


SENTENCES: dict[str, Sentence] = {
    "cause": _cause,
    "client-limit": _client_limit,
    "fidelity-failed": _no_go,
    "mostly-failed": _lost,
    "no-cause-found": _no_cause_found,
    "requests-failed": _lost,
    "retaken": _retaken,
    "steps-skipped": _steps_skipped,
    "server-died": _server_died,
    "shared-machine": _shared_machine,
    "throttled": _throttled,
    "given-twice": _given_twice,
    "guard-failed": _guard_failed,
    "change-unseen": _change_unseen,
    "clock-moves": _clock_moves,
    "disturbed": _disturbed,
    "empty-slots": _empty_slots,
    "extended": _extended,
    "rows-scatter": _rows_scatter,
    "still-warming": _still_warming,
    "impossible-share": _impossible_share,
    "precision-differs": _precision_differs,
    "slo-missed": _slo_missed,
    "slo-unclear": _slo_unclear,
    "diverged": _diverged,
    "target-missed": _target_missed,
}
"""A new finding is a line here, and a page `pages/findings/CODE.md`."""
