"""Replayed telemetry of burn-ins with known faults, and the verdicts on them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from burnin_telemetry import asked, changed, counted, on, telemetry
from twinlens.acceptance.criteria import criteria_of, read_criteria
from twinlens.acceptance.judge import judged
from twinlens.acceptance.judgement import Judgement, Ruling
from twinlens.acceptance.rates import against
from twinlens.acceptance.window import Window

HOURS = 48.0
CRITERIA = read_criteria()


@pytest.fixture(scope="module")
def sound() -> tuple[Window, ...]:
    return telemetry(HOURS, devices=8, window_s=300.0, turn=6)


def of(windows: tuple[Window, ...], devices: int = 8) -> Judgement:
    return judged(windows, CRITERIA, asked(HOURS, devices))


def ruling(judgement: Judgement, what: str) -> Ruling:
    return next(each for each in judgement.rulings if each.criterion.what == what)


def test_a_sound_machine_is_accepted(sound: tuple[Window, ...]) -> None:
    found = of(sound)
    assert (found.verdict, found.decided) == ("accept", ())
    assert {each.standing for each in found.rulings} == {"met", "not applicable"}
    assert found.marks == {}


def test_no_fault_bounds_their_rate_by_three_over_device_hours(sound: tuple[Window, ...]) -> None:
    rate = of(sound).bounds["faults"]
    assert (rate.value, rate.n) == (0.0, 0)
    assert rate.high == pytest.approx(3 / (8 * HOURS), rel=0.01)


def test_throttling_that_was_not_declared_is_named_with_its_reason_and_windows(sound: tuple[Window, ...]) -> None:
    hot = on("gpu5", lambda each: replace(each, throttled={**each.throttled, "hardware thermal slowdown": 0.4}))
    found = ruling(judgement := of(changed(sound, hot, 0.5, 0.6)), "throttled")
    assert judgement.verdict == "quarantine"
    assert (found.standing, found.devices) == ("not met", ("gpu5",))
    assert found.value.value == pytest.approx(0.04, abs=0.002)
    assert (found.why.numbers["reason"], found.windows[0]) == ("hardware thermal slowdown", 289)


def test_the_declared_power_cap_is_no_throttling(sound: tuple[Window, ...]) -> None:
    strict = criteria_of({"throttled": {"limit": 0.01, "unit": "ratio"}}, "a test")
    assert ruling(of(sound), "throttled").standing == "met"
    assert judged(sound, strict, asked(HOURS)).verdict == "quarantine"


def ecc(windows: tuple[Window, ...], totals: list[int]) -> tuple[Window, ...]:
    """The totals of gpu2 in windows one after another, the last from then on."""
    every = [*totals, *(totals[-1:] * (len(windows) - len(totals)))]
    return tuple(
        on("gpu2", lambda each, total=total: counted(each, {"ecc_corrected": total}))(window)  # type: ignore[misc]
        for window, total in zip(windows, every, strict=True)
    )


def test_corrected_errors_that_rise_ever_faster_are_found_though_their_mean_is_low(sound: tuple[Window, ...]) -> None:
    n = len(sound)
    ramp = [3 + int(40 * max(0.0, place / n - 0.75) / 0.25) for place in range(n)]
    found = ruling(judgement := of(ecc(sound, ramp)), "ecc-corrected")
    assert (judgement.verdict, found.standing, found.devices) == ("quarantine", "not met", ("gpu2",))
    assert found.why.numbers["ramp"] is True
    assert min(found.windows) > 0.7 * n


def test_a_few_corrected_errors_that_come_late_are_a_note(sound: tuple[Window, ...]) -> None:
    late = [3] * (len(sound) - 40) + list(range(3, 13))
    found = ruling(judgement := of(ecc(sound, late)), "ecc-corrected")
    assert (judgement.verdict, found.standing) == ("accept with notes", "met with a note")


def test_a_counter_that_starts_again_goes_on_counting(sound: tuple[Window, ...]) -> None:
    reset = [3] * 100 + [0] * 100 + [2] * 100
    found = ruling(of(ecc(sound, reset)), "ecc-corrected")
    assert found.why.numbers["total"] == 2


def test_a_straggler_among_eight_is_named(sound: tuple[Window, ...]) -> None:
    found = of(changed(sound, on("gpu6", lambda each: replace(each, rate=0.93 * float(each.rate or 0)))))
    assert (found.verdict, found.decided) == ("quarantine", ("rate-of-fleet", "stragglers"))
    for what in found.decided:
        assert ruling(found, what).devices == ("gpu6",)
    ratio = ruling(found, "rate-of-fleet").value
    assert ratio.low < 0.93 < ratio.high < 0.95  # type: ignore[operator]


def test_a_link_that_lost_width_for_a_while_is_rejected(sound: tuple[Window, ...]) -> None:
    found = of(changed(sound, on("gpu3", lambda each: counted(each, {"pcie_width": 8})), 0.5, 0.51))
    lost = ruling(found, "pcie-width")
    assert (found.verdict, found.decided, lost.devices) == ("reject", ("pcie-width",), ("gpu3",))
    assert (lost.value.value, lost.windows) == (8.0, (289, 290, 291, 292, 293))
    assert found.marks[289] == ("pcie-width",)


def test_a_width_at_the_start_that_the_first_window_has_not_is_lost(sound: tuple[Window, ...]) -> None:
    narrow = changed(sound, on("gpu3", lambda each: counted(each, {"pcie_width": 8})))
    assert ruling(of(narrow), "pcie-width").standing == "not met"


def test_an_uncorrected_error_and_an_xid_reject(sound: tuple[Window, ...]) -> None:
    found = of(changed(sound, on("gpu1", lambda each: counted(each, {"ecc_uncorrected": 1, "xid": 2})), 0.9))
    assert (found.verdict, found.decided) == ("reject", ("ecc-uncorrected", "xid"))
    assert found.bounds["faults"].n == 1  # one window, whatever it counted


def test_a_drift_is_found_and_a_day_is_not_blamed() -> None:
    drifting = of(telemetry(HOURS, drift=-0.01, devices=2, window_s=300.0, turn=6), 2)
    assert (drifting.verdict, drifting.decided) == ("quarantine", ("drift",))
    daily = of(telemetry(HOURS, 3, day=0.015, devices=2, window_s=300.0, turn=6), 2)
    assert ruling(daily, "drift").standing == "met"
    assert daily.verdict in ("accept", "accept with notes")


def test_under_a_day_a_slope_without_a_temperature_is_not_judged() -> None:
    windows = telemetry(12.0, drift=-0.03, devices=1, window_s=120.0)
    blind = changed(windows, on("gpu0", lambda each: replace(each, temperature_c=None, missing={"temperature": "no"})))
    unknown = ruling(judged(blind, CRITERIA, asked(12.0, 1)), "drift")
    assert (unknown.standing, unknown.why.numbers["unknown"]) == ("insufficient", "day")
    assert ruling(judged(windows, CRITERIA, asked(12.0, 1)), "drift").standing == "not met"


def test_a_step_of_the_wall_clock_changes_nothing(sound: tuple[Window, ...]) -> None:
    stepped = changed(sound, lambda each: replace(each, at_utc="1970-01-01 00:00:00"), 0.3)
    assert of(stepped) == of(sound)


def test_a_counter_that_nobody_could_read_is_insufficient_and_not_0(sound: tuple[Window, ...]) -> None:
    def without(each):  # type: ignore[no-untyped-def]
        return replace(
            each, counters={name: value for name, value in each.counters.items() if name != "xid"},
            missing={"xid": "the log of the kernel needs root"},
        )  # fmt: skip

    found = of(changed(sound, on("gpu4", without)))
    assert (found.verdict, found.decided) == ("insufficient", ("xid",))
    assert ruling(found, "xid").value.reason == "the log of the kernel needs root"


def test_a_counter_that_a_device_cannot_have_is_not_asked_for(sound: tuple[Window, ...]) -> None:
    def processor(window: Window) -> Window:
        devices = (replace(each, counters={}, has_not=tuple(each.counters)) for each in window.devices)
        return replace(window, devices=tuple(devices))

    found = of(changed(sound, processor))
    assert found.verdict == "accept"
    assert {each.standing for each in found.rulings if each.criterion.what in ("xid", "pcie-width")} == {
        "not applicable"
    }


def test_a_counter_that_was_missing_for_a_while_is_a_note(sound: tuple[Window, ...]) -> None:
    found = of(changed(sound, on("gpu0", lambda each: replace(each, counters={})), 0.2, 0.5))
    assert (found.verdict, ruling(found, "xid").why.numbers["unread"]) == (
        "accept with notes",
        pytest.approx(0.3, abs=0.01),
    )


def test_one_loss_that_differs_rejects_and_its_window_is_named(sound: tuple[Window, ...]) -> None:
    wrong = replace(sound[100], checks=dict.fromkeys(sound[100].checks, "other"))
    found = of((*sound[:100], wrong, *sound[101:]))
    differs = ruling(found, "checks")
    assert (found.verdict, found.decided, differs.windows) == ("reject", ("checks",), (101,))
    assert differs.workloads == (sound[100].workload,)


def test_a_device_that_is_always_wrong_shows_beside_those_of_its_kind(sound: tuple[Window, ...]) -> None:
    found = ruling(of(changed(sound, on("gpu7", lambda each: replace(each, checks={"product bf16": "bad"})))), "checks")
    assert (found.standing, found.devices, found.why.numbers["odd_devices"]) == ("not met", ("gpu7",), ["gpu7"])


def test_failures_are_counted_and_the_first_is_quoted(sound: tuple[Window, ...]) -> None:
    died = replace(sound[10], outcome="failed", why="the process was killed", rate_per_s=None, work=0)
    found = of((*sound[:10], died, *sound[11:]))
    assert (found.verdict, found.decided) == ("quarantine", ("failed-windows",))
    assert ruling(found, "failed-windows").why.numbers["first_why"] == "the process was killed"
    assert ruling(of((replace(sound[0], failed=2), *sound[1:])), "failed-rows").value.value == 2


def test_an_all_reduce_that_left_its_fit_is_found(sound: tuple[Window, ...]) -> None:
    slow = changed(
        sound, lambda w: replace(w, exchanges=tuple(replace(e, seconds=1.3 * e.seconds) for e in w.exchanges))
    )
    found = ruling(of(slow), "all-reduce")
    assert (found.standing, found.value.value) == ("not met", pytest.approx(1.3, rel=0.01))
    assert ruling(judged(sound, CRITERIA, replace(asked(HOURS), fit=None)), "all-reduce").standing == "insufficient"


def test_an_unfinished_test_is_never_accepted(sound: tuple[Window, ...]) -> None:
    found = of(sound[: int(0.9 * len(sound))])
    assert (found.verdict, found.decided) == ("insufficient", ("length",))
    assert found.unseen[0].subject == "length"
    assert judged((), CRITERIA, asked(HOURS)).verdict == "insufficient"


def test_a_test_of_minutes_says_what_it_cannot_see() -> None:
    found = judged(telemetry(0.1, devices=2, window_s=30.0), CRITERIA, asked(0.1, 2))
    assert found.verdict == "insufficient"
    assert {"retention", "drift"} < set(found.decided)
    assert [each.subject for each in found.unseen] == ["faults", "any-drift", "day"]


def test_the_last_acceptance_shows_a_machine_that_drifted(sound: tuple[Window, ...]) -> None:
    slower = changed(sound, lambda each: replace(each, rate_per_s=0.94 * float(each.rate_per_s or 0)))
    found = ruling(judged(slower, CRITERIA, asked(HOURS), before=sound), "rate-of-last")
    assert (found.standing, found.workloads) == ("not met", ("decode", "train"))
    assert found.value.value == pytest.approx(0.94)
    assert {name: round(each.value or 0, 3) for name, each in against(sound, slower).items()} == {
        "decode": 0.94,
        "train": 0.94,
    }
    again = telemetry(HOURS, 1, window_s=300.0, turn=6)
    assert ruling(judged(again, CRITERIA, asked(HOURS), before=sound), "rate-of-last").standing == "met"


SHORT = telemetry(12.0, 5, devices=4, window_s=180.0, turn=5)


@settings(max_examples=12)
@given(st.permutations(range(4)))
def test_the_order_of_devices_changes_nothing(order: list[int]) -> None:
    shuffled = changed(SHORT, lambda each: replace(each, devices=tuple(each.devices[place] for place in order)))
    assert judged(shuffled, CRITERIA, asked(12.0, 4)) == judged(SHORT, CRITERIA, asked(12.0, 4))


@settings(max_examples=12)
@given(st.integers(1, 240), st.integers(0, 240))
def test_more_clean_windows_never_turn_acceptance_into_rejection(first: int, more: int) -> None:
    before = judged(SHORT[:first], CRITERIA, asked(12.0, 4))
    after = judged(SHORT[: min(len(SHORT), first + more)], CRITERIA, asked(12.0, 4))
    assert before.verdict in ("accept", "accept with notes", "insufficient")
    assert after.verdict in ("accept", "accept with notes", "insufficient")
