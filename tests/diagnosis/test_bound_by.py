"""Verdicts: each resource that is saturated alone is named, and what cannot be decided is not guessed."""

from __future__ import annotations

import pytest

from diagnosis.saturated import CEILINGS, decoded, rate, request, served, step, told, trained
from twinlens.diagnosis.evidence import Evidence
from twinlens.diagnosis.verdict import verdict_of
from twinlens.units import FLOP_PER_S

MATVEC = {"matvec_bytes_per_s": rate(6.25e9, "bytes/s")}
BUSY = step(data=0.01, forward=0.3, backward=0.6, optimize=0.09)
SATURATED: dict[str, Evidence] = {
    "compute-bound": trained(BUSY, 70e9, 1e9),
    "bandwidth-bound": decoded(8e9, 8e9),
    "below-ceilings": decoded(1e9, 1e9),
    "input-bound": trained(step(data=0.4, forward=0.2, backward=0.4)),
    "interconnect-bound": trained(step(communicate=0.3, forward=0.3, backward=0.4)),
    "host-bound": served(request(queue=0.1, prefill=0.1, transport=0.3, decode=0.5)),
    "queue-bound": served(request(queue=0.5, prefill=0.1, transport=0.0, decode=0.4)),
    "capacity-bound": served(request(queue=0.5, prefill=0.1, decode=0.4), told(server_preemptions=3.0)),
}


@pytest.mark.parametrize("code", SATURATED)
def test_the_resource_that_is_saturated_is_named(code: str) -> None:
    found = verdict_of(SATURATED[code])
    assert found.code == code
    assert found.numbers["confidence"] in ("medium", "high")


def test_compute_bound_work_gains_at_most_what_is_left_below_the_ceiling() -> None:
    found = verdict_of(trained(BUSY, 70e9, 1e9))
    assert found.numbers["change"] == "double-batch"
    assert found.numbers["at_most"] == pytest.approx(1 / 0.7)
    assert found.numbers["ridge"] == pytest.approx(10)
    assert found.numbers["intensity_high"] == pytest.approx(70)


def test_bandwidth_bound_work_gains_a_part_of_the_bytes_it_saves_and_no_more_than_all_of_them() -> None:
    """Half the bytes of 80 % of the time would give 1 / (1 - 0.4) = 1.67: less than half of that gain refutes."""
    found = verdict_of(decoded(8e9, 8e9))
    assert found.numbers["change"] == "halve-weights"
    assert found.numbers["at_least"] == pytest.approx(1 + (1 / 0.6 - 1) / 2)
    assert found.numbers["at_most"] == pytest.approx(2)
    half = verdict_of(decoded(8e9, 8e9, kernel_bytes=4e9))  # half of the bytes are weights
    assert half.numbers["at_least"] == pytest.approx(1 + (1 / 0.8 - 1) / 2)
    assert half.numbers["at_most"] == pytest.approx(1 / 0.75)


def test_work_far_from_both_roofs_gains_at_least_what_a_larger_batch_leaves_unchanged() -> None:
    found = verdict_of(decoded(1e9, 1e9))
    assert found.numbers["at_least"] == pytest.approx(2 / 1.1)


def test_decode_is_held_against_its_own_kernels_too() -> None:
    kernels = CEILINGS | {"matvec_bytes_per_s": rate(5e9, "bytes/s")}
    found = verdict_of(decoded(1e9, 4e9, kernel_bytes=4e9, ceilings=kernels))
    assert found.code == "kernel-bound", "80 % of their own rate is 40 % of what memory gives"
    assert (found.numbers["change"], found.numbers["at_most"]) == ("other-kernels", pytest.approx(1 / 0.4))
    assert found.numbers["bandwidth_ceiling"] == "matvec_bytes_per_s"
    assert found.numbers["bandwidth_share"] == pytest.approx(0.8)
    assert found.numbers["stream_share"] == pytest.approx(0.4)


def test_a_place_left_of_the_ridge_alone_decides_nothing() -> None:
    """A step that waits for Python does few FLOP per byte too."""
    assert verdict_of(decoded(1e8, 1e9, seconds=5.0)).code == "below-ceilings"


@pytest.mark.parametrize(
    ("why", "seen"),
    [
        ("unattributed", trained(step(forward=0.3, backward=0.5))),
        ("no-ceiling", trained(BUSY, ceilings={})),
        ("no-work", served(request(prefill=0.1, decode=0.9))),
        ("near-ridge", trained(BUSY, 70e9, 5e9, most=9e9)),
        ("near-ridge", decoded(3e9, 3e9, most=9e9)),
        ("above-ceiling", trained(BUSY, 130e9, 1e9)),
        ("above-ceiling", decoded(8e9, 8e9, kernel_bytes=8e9, ceilings=CEILINGS | MATVEC)),  # 128 % of its kernels
        ("processor-shared", decoded(4e9, 4e9, on_processor=0.5)),
        ("ceilings-moved", trained(BUSY, ceilings_after={"matrix_flop_per_s_at": rate(200e9, FLOP_PER_S)})),
    ],
)
def test_what_the_evidence_does_not_decide_is_indeterminate(why: str, seen: Evidence) -> None:
    found = verdict_of(seen)
    assert (found.code, found.numbers["why"], found.numbers["confidence"]) == ("indeterminate", why, "low")


def test_ceilings_that_moved_and_lead_to_the_same_verdict_do_not_matter() -> None:
    moved = {"matrix_flop_per_s_at": rate(90e9, FLOP_PER_S)}
    assert verdict_of(trained(BUSY, ceilings_after=moved)).code == "compute-bound"


def test_a_long_wait_is_named_though_much_of_the_time_is_unattributed() -> None:
    assert verdict_of(trained(step(data=0.5, forward=0.3))).code == "input-bound"


def test_confidence_falls_near_the_threshold_and_for_a_run_that_is_not_ranked() -> None:
    def grade(flop: float, ranked: bool) -> str:
        return str(verdict_of(trained(BUSY, flop, ranked=ranked)).numbers["confidence"])

    assert [grade(80e9, True), grade(62e9, True), grade(62e9, False)] == ["high", "medium", "low"]


def test_work_far_below_its_ceilings_is_said_to_be_however_little_of_the_processor_it_had() -> None:
    assert verdict_of(decoded(1e9, 1e9, on_processor=0.5)).code == "below-ceilings"
    assert verdict_of(decoded(4e9, 4e9, on_processor=1.0)).code == "below-ceilings"
