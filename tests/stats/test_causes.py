"""What went with the slow moments of a run: found where it is there, and not where it is not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from material import measured, training
from twinlens.record.estimate import Estimate
from twinlens.record.finding import Finding
from twinlens.record.samples import TELEMETRY_SCHEMA
from twinlens.reporting.text.first_lines import finding_lines
from twinlens.stats.finding.causes import NAMES, Pace, causes
from twinlens.stats.run_summary import summarise
from twinlens.stats.summary.group import group, mean_of_attempts

PERIOD_S = 0.5


def telemetry(**columns: Any) -> pa.Table:
    """One host sample every half second with these columns, the others absent."""
    count = len(next(iter(columns.values())))
    time_ns = (np.arange(count) * PERIOD_S * 1e9).astype(np.int64)
    rows = {"time_ns": time_ns, "source": ["host"] * count} | columns
    arrays = [pa.array(rows.get(f.name, [None] * count)).cast(f.type) for f in TELEMETRY_SCHEMA]
    return pa.table(arrays, schema=TELEMETRY_SCHEMA)


def pace(slower: np.ndarray, step_s: float = 0.1, noise: float = 0.03, seed: int = 0, tagged: float = 2.0) -> Pace:
    """Steps in turn for as long as `slower` (one factor per sample) lasts; those slower than `tagged` compiled."""
    draw = np.random.default_rng(seed)
    at_s, begins, ends, tags = 0.0, [], [], []
    while at_s < (len(slower) - 1) * PERIOD_S:
        factor = slower[int(at_s / PERIOD_S) + 1]
        begins.append(at_s)
        at_s += step_s * factor * float(np.exp(noise * draw.standard_normal()))
        ends.append(at_s)
        tags.append(factor >= tagged)
    begin, end = np.array(begins) * 1e9, np.array(ends) * 1e9
    return Pace(begin, end, np.log(end - begin), np.array(tags))


def bursts(count: int = 81, seed: int = 1) -> np.ndarray:
    """1 in some stretches of samples and 0 in the others."""
    draw = np.random.default_rng(seed)
    at, on = 0, np.zeros(count)
    while at < count:
        at += int(draw.integers(4, 10))
        long = int(draw.integers(2, 6))
        on[at : at + long] = 1.0
        at += long
    return on


def flat(value: float, count: int = 81, seed: int = 2) -> np.ndarray:
    return value * (1 + 0.02 * np.random.default_rng(seed).standard_normal(count))


@pytest.mark.parametrize(
    ("column", "calm", "slow", "source"),
    [
        ("foreign_cpu", 0.01, 0.45, "other-programs"),
        ("steal_cpu", 0.0, 0.2, "steal"),
        ("quota_cpu", 0.0, 0.3, "quota"),
        ("cpu_mhz", 3000.0, 2200.0, "clock"),
        ("sm_mhz", 1980.0, 1400.0, "gpu-clock"),
        ("throttle_bits", 0, 0x20, "throttling"),
        ("temperature_c", 60.0, 88.0, "temperature"),
        ("swapped_bytes", 0, 2**26, "swapping"),
        ("major_faults", 0, 400, "page-faults"),
        ("read_bytes", 0, 2**27, "storage"),
        ("gc_share", 0.001, 0.3, "garbage-collection"),
    ],
)
def test_each_source_is_named_where_it_goes_with_the_slow_rows(
    column: str, calm: float, slow: float, source: str
) -> None:
    on = bursts()
    kind = int if isinstance(slow, int) else float
    machine = telemetry(**{column: [kind(slow if one else calm) for one in on]}, available_memory_bytes=[2**30] * 81)
    (found,) = causes(pace(1 + 0.6 * on), machine)
    assert (found.source, found.how) == (source, "in time")
    assert found.share is not None
    assert 0.7 < found.share <= 1.0
    assert (found.slow - found.calm) * (slow - calm) > 0


def test_rows_that_compiled_are_a_cause_of_their_own() -> None:
    on = np.zeros(81)
    on[[20, 45, 60]] = 1.0
    (found,) = causes(pace(1 + 2.0 * on), telemetry(foreign_cpu=flat(0.01)))
    assert (found.source, found.external) == ("compile", False)


def test_nothing_is_named_where_the_machine_was_quiet_while_rows_were_slow() -> None:
    machine = telemetry(foreign_cpu=flat(0.02), steal_cpu=flat(0.001), cpu_mhz=flat(3000.0), gc_share=flat(0.002))
    assert causes(pace(1 + 0.6 * bursts()), machine) == ()


def test_what_was_there_throughout_is_named_without_a_share() -> None:
    (found,) = causes(pace(1 + 0.6 * bursts()), telemetry(foreign_cpu=flat(0.33)))
    assert (found.source, found.how, found.share, found.correlation) == ("other-programs", "throughout", None, None)
    assert found.slow == pytest.approx(0.33, abs=0.01)


def test_slow_waves_of_two_series_are_seldom_taken_for_cause_and_effect() -> None:
    """Both wander for reasons of their own; a plain correlation test would believe about half of these."""

    def wave(seed: int) -> np.ndarray:
        steps = np.random.default_rng(seed).standard_normal(81)
        wandering = np.zeros(81)
        for i in range(1, 81):
            wandering[i] = 0.95 * wandering[i - 1] + steps[i]
        return wandering

    named = 0
    for seed in range(100):
        machine = telemetry(foreign_cpu=0.3 + 0.05 * wave(1000 + seed))
        suspects = causes(pace(np.exp(0.1 * wave(seed)), seed=seed, tagged=np.inf), machine)
        named += any(each.how == "in time" for each in suspects)
    assert named <= 8


def test_a_run_too_short_to_correlate_still_names_what_was_there_throughout() -> None:
    suspects = causes(pace(1 + 0.6 * bursts(7)), telemetry(foreign_cpu=flat(0.4, 7)))
    assert [(each.source, each.how) for each in suspects] == [("other-programs", "throughout")]


def test_telemetry_of_an_older_version_or_none_at_all_names_nothing() -> None:
    rows = pace(1 + 0.6 * bursts())
    old = telemetry(foreign_cpu=flat(0.01)).drop_columns(["steal_cpu", "gc_share", "quota_cpu"])
    assert causes(rows, old) == ()
    assert causes(rows, TELEMETRY_SCHEMA.empty_table()) == ()


def test_the_largest_share_comes_first() -> None:
    on = bursts(161)
    half = on * (np.arange(161) % 2)  # the collector ran in half of the slow moments only
    suspects = causes(pace(1 + 0.9 * on), telemetry(gc_share=0.001 + 0.2 * half, foreign_cpu=0.01 + 0.4 * on))
    assert [each.source for each in suspects] == ["other-programs", "garbage-collection"]
    assert {each.source for each in suspects} <= set(NAMES)


def test_a_run_that_is_not_ranked_says_its_cause_or_that_none_was_found(tmp_path: Path) -> None:
    run = measured(tmp_path, training("fake", options={"noise": 0.02}, protocol={"duration_s": 40.0, "min_rows": 400}))
    on = bursts()
    factor = np.repeat(1 + 0.6 * on[1:], 5)[: len(run.steps)]
    durations = (run.steps.end_ns - run.steps.begin_ns)[: factor.size] * factor
    ends = np.cumsum(durations).astype(np.int64)
    slowed = replace(run.steps.where(np.arange(factor.size)), end_ns=ends, begin_ns=ends - durations.astype(np.int64))
    middle = (ends / 1e9 / PERIOD_S).astype(int)
    busy = [float(0.5 * (factor[middle == i] > 1.3).mean()) if (middle == i).any() else 0.0 for i in range(110)]
    run.__dict__["steps"], run.__dict__["telemetry"] = slowed, telemetry(foreign_cpu=[0.0, *busy])
    summary = summarise(run)
    assert not summary.ranked
    assert [(one.subject, one.numbers["external"]) for one in summary.findings if one.code == "cause"] == [
        ("other-programs", True)
    ]
    run.__dict__["telemetry"] = telemetry(foreign_cpu=[0.0] * 110)
    assert [one.code for one in summarise(run).findings if "cause" in one.code] == ["no-cause-found"]


def test_the_last_attempt_at_a_repeat_counts_and_the_others_are_kept(tmp_path: Path) -> None:
    summary = summarise(measured(tmp_path, training("fake")))
    first, again = (replace(summary, run=f"try {attempt}", attempt=attempt) for attempt in (1, 2))
    other = replace(summary, run="other", repeat=1)
    (one,) = group([first, again, other])
    assert one.runs == (again, other)
    assert one.retaken == (first,)


def test_a_ranked_rate_says_what_it_is_with_the_attempts_that_others_disturbed(tmp_path: Path) -> None:
    """Ranked groups of a shared machine read 3 to 4 % above the mean of all their runs, and nothing said so."""
    summary = summarise(measured(tmp_path, training("fake")))
    (name,) = [key for key in ("training_tokens_per_s",) if key in summary.metrics]
    slow, fast = (Estimate(rate, summary.metrics[name].unit, "m", "measured", n=100) for rate in (80.0, 100.0))
    retaken = Finding("retaken", "warns", "", {"attempt": 2})
    first = replace(summary, run="try 1", attempt=1, metrics=summary.metrics | {name: slow})
    again = replace(summary, run="try 2", attempt=2, metrics=summary.metrics | {name: fast}, findings=(retaken,))
    other = replace(summary, run="other", repeat=1, metrics=summary.metrics | {name: fast})
    (one,) = group([first, again, other])
    assert mean_of_attempts(one, name).value == pytest.approx(280 / 3)
    (line,) = [line for line in finding_lines([one]) if line.code == "retaken"]
    assert "with them" in line.text
    assert "is 93.3 tokens/s, here 100 tokens/s" in line.text
    (alone,) = group([again, other])
    assert mean_of_attempts(alone, name) is None
    assert "with them" not in "".join(line.text for line in finding_lines([alone]))
