"""The next thing to try with a run: one sentence with its setting, from the first rule that applies."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from twinlens.pack.place import in_pack
from twinlens.record.estimate import Estimate
from twinlens.record.finding import Finding
from twinlens.record.run import Run
from twinlens.reporting.display import clean
from twinlens.reporting.load_kind import is_driven, is_traffic
from twinlens.reporting.wording.finding import advice_of
from twinlens.spec.slices import may_take_turns
from twinlens.spec.workload.workload import InferenceWorkload
from twinlens.stats.client import MOST_LOAD
from twinlens.stats.estimator.quantile import needed_for_quantile
from twinlens.stats.estimator.repeats import FEWEST_RUNS
from twinlens.stats.summary.group import Summary
from twinlens.stats.summary.serving import is_served

_LONGER = ("unproven", "too short", "drift", "slowdown", "cyclic", "no steady state")
_FIRST = ("server-died", "mostly-failed", "client-limit")
_OF_LABEL = {"failing": "failing", "invalid": "client-limit"}
"""The code of a verdict that is itself what to mend."""
_MARGIN = 1.25  # runs differ in how many of their requests are independent
_MOST_REPEATS = 10


def next_step(run: Run, summary: Summary, *, of_many: bool = False) -> str:
    """The one thing to try next. `of_many`: other runs are shown with it; "" where nothing is left to try."""
    rules = [rule for rule in _RULES if not (of_many and rule is _show_study)]
    advice = next((advice for rule in rules if (advice := rule(run, summary))), "")
    return _without_turns(run, of_many) if "protocol.pairing" in advice and not _may_pair(run) else advice


def _may_pair(run: Run) -> bool:
    return is_driven(run) and run.spec.protocol.pairing == "none" and may_take_turns(run.spec)


def _without_turns(run: Run, of_many: bool) -> str:
    """Advice where turns are taken already, or cannot be."""
    if run.spec.protocol.pairing == "none" or of_many:
        return "Stop the other programs, and measure again."
    return f"Its ratios survive other programs: twinlens show {_study(run)}"


def _as_it_came(run: Run, summary: Summary) -> str:
    """Nobody measured a day of traffic, so no command of it goes on; its requests can be asked again."""
    if not is_traffic(summary.findings):
        return ""
    return f"Ask the same of a server again: twinlens measure {clean(run.folder, 200)} --url ADDRESS"


def _go_on(run: Run, summary: Summary) -> str:
    """A run that failed does so again until what ended it is mended, which what was found of it may say."""
    if summary.state == "finished" or not is_driven(run):
        return ""
    again = "Give the same `measure` command again: a study goes on where it stopped."
    return again if summary.state != "failed" else _mend(run, summary) or f"Mend what ended it. {again}"


def _mend(_: Run, summary: Summary) -> str:
    """Advice against what disqualifies: a server that fails, or a client at its limit, before anything else.

    "" where other work held the client up, which had processors to spare: that work is what to mend.
    """
    found = [finding for finding in summary.disqualified if finding.code in _FIRST]
    if not found and summary.verdict.label in _OF_LABEL:
        found = [_of_label(summary)]
    found += summary.disqualified
    if not found:
        return ""
    if found[0].code != "client-limit" or _is_loaded(found[0], summary):
        return advice_of(found[0])
    return "" if _cause(summary) else advice_of(Finding("client-stood-still", "disqualifies"))


def _of_label(summary: Summary) -> Finding:
    """The finding that a label stands for, with what is known of it: why requests failed, why the client was late."""
    code = _OF_LABEL[summary.verdict.label]
    fits = (
        (lambda finding: "reasons" in finding.numbers) if code == "failing" else (lambda finding: finding.code == code)
    )
    known = next(filter(fits, summary.findings), Finding(code, "disqualifies"))
    return replace(known, code=code)


def _is_loaded(limit: Finding, summary: Summary) -> bool:
    """Whether the load itself was too much for the client, rather than what else ran beside it."""
    load = summary.metrics.get("client_load")
    known = load is not None and load.value is not None and load.value <= MOST_LOAD
    return not known or any(reason.code == "client-loaded" for reason in limit.because)


def _cause(summary: Summary) -> str:
    """Advice against what was seen to disturb the run; "" where nothing was."""
    causes = [finding for finding in summary.findings if finding.code == "cause"]
    return next(map(advice_of, causes), "")


def _free_the_machine(_: Run, summary: Summary) -> str:
    return "" if summary.validity == "valid" else _cause(summary)


def _offer_less(_: Run, summary: Summary) -> str:
    return advice_of(Finding("overload", "notes")) if summary.verdict.label == "overload" else ""


def _longer(run: Run, summary: Summary) -> str:
    if summary.verdict.label not in _LONGER:
        return ""
    if not is_driven(run):
        return "Record four times as many steps."
    reached = summary.metrics.get("time_to_target_s")
    if reached is not None and reached.value is not None:
        return "It ended at its target, which is its result; for a rate, measure without one (--set workload.until=)."
    return f"Measure four times as long (--set protocol.duration_s={4 * run.spec.protocol.duration_s:g})."


def _intervals(run: Run, summary: Summary) -> str:
    """One run under load seldom shows how far its requests depend on each other; repeats do, where they are enough."""
    wait = summary.metrics.get("ttft_s_p50")
    if not is_served(run) or wait is None or wait.value is None or wait.low is not None:
        return ""
    repeats = run.spec.protocol.repeats
    enough = _repeats_for(wait, 0.5)
    if enough > max(repeats, _MOST_REPEATS):
        longer = f"--set protocol.duration_s={4 * run.spec.protocol.duration_s:g}"
        return f"Requests wait for each other for nearly the whole run: only longer runs show how far ({longer})."
    if repeats < enough:
        return f"--set protocol.repeats={enough} gives the median wait an interval over runs; or measure longer."
    return f"The study has intervals over its repeats: twinlens show {_study(run)}"


def _repeats_for(wait: Estimate, q: float) -> int:
    """How many repeats like this run have the independent requests that an interval of a quantile takes."""
    independent = wait.spread.independent if wait.spread else 1.0
    return max(FEWEST_RUNS, math.ceil(_MARGIN * needed_for_quantile(q) / max(1.0, independent)))


def _tail(run: Run, summary: Summary) -> str:
    """A p99 takes 368 independent requests."""
    wait = summary.metrics.get("ttft_s_p99")
    if not is_served(run) or wait is None or wait.high is not None or not summary.rows:
        return ""
    needed = needed_for_quantile(0.99, 0.95)
    seen = wait.spread.independent if wait.spread else summary.rows
    times = min(100.0, max(2.0, _MARGIN * needed / max(1.0, seen)))
    longer = f"--set protocol.duration_s={_round_up(times * run.spec.protocol.duration_s):g}"
    return f"p99 takes {needed} independent requests, and this run has about {seen:.0f} ({longer})."


def _repeat(run: Run, _: Summary) -> str:
    if run.spec.protocol.repeats > 1 or run.place in ("recorded", "simulated"):  # to play it again adds nothing
        return ""
    if not is_driven(run):
        return "Three runs of the same training show how far runs differ."
    return "--set protocol.repeats=3 shows how far runs differ."


def _search(run: Run, _: Summary) -> str:
    workload = run.spec.workload
    if isinstance(workload, InferenceWorkload) and workload.slo and run.spec.point.rate_per_s is not None:
        return "--at rate_per_s=search finds the highest rate within the SLO."
    return ""


def _show_study(run: Run, _: Summary) -> str:
    return f"Show the whole study: twinlens show {_study(run)}"


def _study(run: Run) -> str:
    """Its folder; in a pack the one that is packed, so that whoever unpacks it reads the same."""
    return clean(in_pack(run.folder.parent), 200)


def _round_up(seconds: float) -> float:
    """To a number that people type: 10, 20, 30 … 60, 120, 180 …"""
    step = 10 if seconds <= 60 else 60
    return step * -(-seconds // step)


_RULES: tuple[Callable[[Run, Summary], str], ...] = (
    _as_it_came, _go_on, _mend, _free_the_machine, _offer_less, _longer, _intervals, _tail, _repeat, _search,
    _show_study,
)  # fmt: skip
