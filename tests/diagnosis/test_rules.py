"""Findings of a diagnosis: each from its evidence, validity first, and no time counted twice."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from diagnosis.saturated import CEILINGS, decoded, rate, request, served, step, told, trained
from twinlens.diagnosis.counter import counters_of
from twinlens.diagnosis.diagnosis import diagnose_evidence
from twinlens.diagnosis.evidence import Evidence, filled_share
from twinlens.diagnosis.instrument import Instrument
from twinlens.diagnosis.probe_ceilings import LINK
from twinlens.record.finding import Finding
from twinlens.reporting.wording.finding import advice_of, sentence_of

KERNELS = CEILINGS | {"matvec_bytes_per_s": rate(5e9, "bytes/s")}
COUNTED = (Instrument("NVML GPM", {"dram_active": rate(0.9, "1")}),)
LINKED = CEILINGS | {LINK: rate(1e9, "bytes/s")}
TIMED = Finding("exchange-hidden", "notes", "", {"flight_s": 0.3, "bytes": 1e8, "ranks": 2})
SHOWN: dict[str, Evidence] = {
    "diagnosis-of-unranked": trained(step(forward=1.0), ranked=False, label="unproven"),
    "ceiling-not-measured": trained(step(forward=1.0), ceilings={}),
    "instrument-contradicts": trained(step(forward=1.0), instruments=COUNTED),
    "time-unattributed": trained(step(forward=0.8)),
    "time-waiting": trained(step(data=0.2, forward=0.8)),
    "cache-full": served(request(queue=0.2, decode=0.8), told(server_kv_use_max=0.99)),
    "optimizer-time": trained(step(forward=0.8, optimize=0.2), optimizer_bytes=1e9),
    "exchange-above-link": trained(step(communicate=0.3, forward=0.7), ceilings=LINKED, findings=(TIMED,)),
    "kernel-below-stream": decoded(1e9, 4e9, kernel_bytes=4e9, ceilings=KERNELS),
    "batch-below-ridge": decoded(8e9, 8e9),
}


def codes(seen: Evidence) -> list[str]:
    return [each.code for each in diagnose_evidence("run", seen).findings]


@pytest.mark.parametrize("code", SHOWN)
def test_a_finding_comes_from_its_evidence_and_has_words(code: str) -> None:
    found = next(each for each in diagnose_evidence("run", SHOWN[code]).findings if each.code == code)
    assert not sentence_of(found).startswith("A check found")
    assert advice_of(found)


@pytest.mark.parametrize(("counted", "said"), [({}, False), ({"server_preemptions": 3.0}, True)])
def test_preemptions_that_no_server_counted_are_not_said_to_be_none(counted: dict[str, float], said: bool) -> None:
    seen = served(request(queue=0.2, decode=0.8), told(server_kv_use_max=0.99, **counted))
    found = next(each for each in diagnose_evidence("run", seen).findings if each.code == "cache-full")
    assert ("preempted" in sentence_of(found)) is said
    assert (found.numbers["preemptions"] is not None) is said


def test_work_at_its_ceiling_without_waits_has_no_finding() -> None:
    assert codes(trained(step(data=0.01, forward=0.33, backward=0.66), 90e9)) == []


def test_findings_on_validity_come_first() -> None:
    seen = trained(step(data=0.3, forward=0.5), ceilings={}, ranked=False)
    assert codes(seen) == ["diagnosis-of-unranked", "ceiling-not-measured", "time-unattributed", "time-waiting"]


def test_a_run_that_is_disqualified_says_by_what() -> None:
    diverged = Finding("diverged", "disqualifies", "loss")
    (found,) = diagnose_evidence("run", trained(step(forward=1.0), ranked=False, findings=(diverged,))).findings
    assert found.because == (diverged,)


def test_headroom_is_counted_once() -> None:
    seen = trained(step(data=0.3, communicate=0.2, forward=0.2, optimize=0.2), optimizer_bytes=1e9)
    seen = replace(seen, partition=step(data=0.3, communicate=0.2, forward=0.2, optimize=0.3))
    found = diagnose_evidence("run", seen)
    headroom = [each.numbers["headroom_s"] for each in found.findings if "headroom_s" in each.numbers]
    assert headroom == pytest.approx([0.3, 0.2, 0.2])  # the optimizer's 0.3 s less the 0.1 s that its bytes take
    assert sum(headroom) <= found.partition.seconds


def test_kernels_are_said_to_be_slow_only_beside_a_faster_read_of_the_same_memory() -> None:
    fast = CEILINGS | {"matvec_bytes_per_s": rate(9e9, "bytes/s")}
    assert "kernel-below-stream" not in codes(decoded(1e9, 4e9, kernel_bytes=4e9, ceilings=fast))
    found = diagnose_evidence("run", SHOWN["kernel-below-stream"]).findings[0]
    # 0.8 of the time is in kernels that read at half the rate: 0.4 of it can be saved.
    assert found.numbers["at_most"] == pytest.approx(1 / 0.6)


@pytest.mark.parametrize("seen", SHOWN.values(), ids=SHOWN)
def test_there_are_always_four_counters_each_with_a_value_or_a_reason(seen: Evidence) -> None:
    found = counters_of(seen, seen.phases[-1].name)
    assert [each.id for each in found] == ["matrix-engines", "bandwidth", "batching", "transfer"]
    for each in found:
        assert (each.value.value is None) == (each.confidence == "none")
        assert each.value.value is not None or each.value.reason


def test_counters_hold_what_was_done_against_what_can_be() -> None:
    engines, bandwidth, batching, transfer = counters_of(trained(step(forward=1.0), 70e9, 1e9), "step")
    assert engines.value.value == pytest.approx(70)
    assert engines.beside["ridge"].value == pytest.approx(10)
    assert engines.beside["share"].value == pytest.approx(0.7)
    assert bandwidth.value.value == pytest.approx(1e9)
    assert bandwidth.beside["share"].value == pytest.approx(0.1)
    assert batching.value.value == 1
    assert transfer.value.reason == "device and host share one memory here: nothing is copied"


def test_of_a_server_the_boundary_is_what_its_queue_and_prefill_leave() -> None:
    seen = served(request(queue=0.1, prefill=0.1, transport=0.3, decode=0.5), told(batching_efficiency=0.4))
    engines, _, batching, transfer = counters_of(seen, "decode")
    assert engines.value.reason == "the server's", "the reason of its phase"
    assert (batching.value.value, transfer.value.value) == (pytest.approx(0.4), pytest.approx(0.3))


def test_a_batch_is_filled_by_what_its_longest_answer_leaves_of_it() -> None:
    group, tokens = np.array([0, 0, 1, 1]), np.array([2, 8, 5, 5])
    assert filled_share(group, tokens) == pytest.approx(20 / (16 + 10))
    assert filled_share(group, np.zeros(4, int)) is None


def test_an_exchange_is_held_against_a_probed_link_of_the_same_number_of_ranks() -> None:
    (found,) = [each for each in diagnose_evidence("run", SHOWN["exchange-above-link"]).findings if "link" in each.code]
    assert (found.numbers["least_s"], found.numbers["times"]) == (pytest.approx(0.1), pytest.approx(3.0))
    four = replace(TIMED, numbers=dict(TIMED.numbers) | {"ranks": 4})  # 1.5 times the bytes pass through each of four
    (found,) = [
        each
        for each in diagnose_evidence("run", replace(SHOWN["exchange-above-link"], findings=(four,))).findings
        if "link" in each.code
    ]
    assert found.numbers["least_s"] == pytest.approx(0.15)
    fast = replace(TIMED, numbers=dict(TIMED.numbers) | {"flight_s": 0.14})
    assert "exchange-above-link" not in codes(replace(SHOWN["exchange-above-link"], findings=(fast,)))
    assert "exchange-above-link" not in codes(replace(SHOWN["exchange-above-link"], ceilings=CEILINGS))
