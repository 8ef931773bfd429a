"""Work of a server's steps: who decodes together, and FLOP and bytes of one step."""

from __future__ import annotations

import numpy as np
import pytest

from diagnosis.saturated import CEILINGS, PEAK, STREAM, request, seen, told
from served_rows import columns, failed, row
from twinlens.diagnosis.counter import counters_of
from twinlens.diagnosis.phase import Phase, bounded_place_of, place_of
from twinlens.diagnosis.scale_out import utilisation
from twinlens.diagnosis.served_work import decoding_together, served_phases
from twinlens.diagnosis.verdict import phase_verdict
from twinlens.record.executor.facts import Facts
from twinlens.record.executor.record import ExecutorRecord, PrecisionCheck, observed
from twinlens.reporting.wording.diagnosis import counter_words
from twinlens.reporting.wording.finding import sentence_of
from twinlens.spec.model.reference import load_model
from twinlens.spec.model.shape import DecoderShape
from twinlens.spec.precision import AS_SERVED, precision
from twinlens.theory.flop import decode_flop, prefill_flop
from twinlens.theory.traffic import decode_step_bytes, prefill_bytes


def shape() -> DecoderShape:
    found = load_model("small").shape
    assert isinstance(found, DecoderShape)
    return found


def phases(rows: list, metrics: dict | None = None, **given) -> tuple[Phase, Phase]:
    requests = columns(rows)
    known = {"shape": shape(), "regime": precision("bf16"), "facts": None} | given
    (prefill, decode), _ = served_phases(
        requests, np.arange(len(requests)), metrics or {}, known["shape"], known["regime"], known["facts"]
    )
    return prefill, decode


def test_requests_that_decode_together_are_counted_as_a_decoding_request_sees_them() -> None:
    # Alone for 100 ms, two for 100 ms, alone for 100 ms: Σ n² dt / Σ n dt = (100 + 400 + 100) / (100 + 200 + 100).
    requests = columns([row(0, (100, 200, 300)), row(0, (200, 300, 400))])
    assert decoding_together(requests, np.arange(2)) == pytest.approx(1.5)
    apart = columns([row(0, (10, 20)), row(0, (500, 510))])
    assert decoding_together(apart, np.arange(2)) == 1.0, "idle time is nobody's batch"


def test_a_decode_step_is_the_gap_between_tokens_with_the_work_of_all_that_decode() -> None:
    rows = [row(0, (100, 120, 140, 160, 180), input_tokens=30)] * 3
    _, decode = phases(rows)
    assert decode.seconds == pytest.approx(0.020)
    assert decode.flop == pytest.approx(3 * decode_flop(shape(), 32.5))
    assert decode.least_bytes == pytest.approx(decode_step_bytes(shape(), 32.5, 3, 16.0, 2.0, None))
    assert (decode.most_bytes or 0.0) > decode.least_bytes
    assert place_of(decode, CEILINGS) is not None


def test_the_batch_of_one_of_several_replicas_is_not_that_of_all_requests() -> None:
    rows = [row(0, (100, 120, 140), input_tokens=30)] * 4
    for count, known in ((1, True), (2, False)):
        facts = Facts(ExecutorRecord({"serving.replicas": observed(count, "the balancer")}))
        _, decode = phases(rows, facts=facts)
        assert (decode.flop is not None) == known
    assert "which of 2 replicas had them" in decode.reason


def test_a_head_that_a_quantised_folder_keeps_wider_is_read_at_its_own_width() -> None:
    rows = [row(0, (100, 120, 140, 160, 180), input_tokens=30)] * 3
    regime = precision("int4-weight-gptq")
    bits = regime.weight_bits("inference", shape().hidden)
    facts = Facts(ExecutorRecord({"precision.head": observed("bf16", "its folder")}))
    _, wide = phases(rows, regime=regime, facts=facts)
    _, unsaid = phases(rows, regime=regime)
    assert wide.least_bytes == pytest.approx(decode_step_bytes(shape(), 32.5, 3, bits, 2.0, 16.0))
    assert unsaid.least_bytes == pytest.approx(decode_step_bytes(shape(), 32.5, 3, bits, 2.0, None))


def test_prefill_takes_the_servers_own_time_and_leaves_out_what_was_cached() -> None:
    rows = [row(0, (100, 120), input_tokens=64)]
    prefill, _ = phases(rows, told(server_prefill_s_mean=0.05, prefix_hit_ratio=0.5))
    assert prefill.seconds == pytest.approx(0.05)
    assert prefill.flop == pytest.approx(prefill_flop(shape(), 32))
    assert prefill.least_bytes == pytest.approx(prefill_bytes(shape(), 32, 1, 16.0, 2.0, None))
    silent, _ = phases(rows)
    assert "does not say how long prefill takes" in str(silent.reason)


def test_unreported_prefix_hits_are_unknown_and_the_work_an_upper_bound() -> None:
    rows = [row(0, (100, 120), input_tokens=64)]
    prefill, _ = phases(rows, told(server_prefill_s_mean=0.05))
    assert "does not say how much of each prompt its prefix cache held" in prefill.at_most_because
    assert prefill.flop == pytest.approx(prefill_flop(shape(), 64))
    assert prefill.least_bytes == pytest.approx(prefill_bytes(shape(), 1, 1, 16.0, 2.0, None))
    assert place_of(prefill, CEILINGS) is None
    place = bounded_place_of(prefill, CEILINGS)
    assert place is not None
    assert place.intensity_low is None, "no hits at all is one possibility of many"
    for known in (
        phases(rows, told(server_prefill_s_mean=0.05, prefix_hit_ratio=0.0))[0],
        phases(rows, told(server_prefill_s_mean=0.05), facts=facts_of(stack={"serving.prefix_cache": False}))[0],
        phases(rows, told(server_prefill_s_mean=0.05), facts=facts_of(stack={"decoding.cache_hit_ratio": 0.0}))[0],
    ):
        assert (known.at_most_because, known.flop) == ("", pytest.approx(prefill_flop(shape(), 64)))
    whole, _ = phases(rows, told(server_prefill_s_mean=0.05, prefix_hit_ratio=1.0))
    assert whole.flop == pytest.approx(prefill_flop(shape(), 1)), "the last token is always computed"


def bounded(flop: float, least: float, most: float) -> Phase:
    return Phase("prefill", "prefill", 1.0, flop, least, most, at_most_because="nobody says the hits")


@pytest.mark.parametrize(
    ("phase", "code"),
    [
        (bounded(0.9 * PEAK, 0.01 * STREAM, 0.02 * STREAM), "indeterminate"),  # compute-bound, or nearly all cached
        (bounded(0.3 * PEAK, 0.01 * STREAM, 0.02 * STREAM), "below-ceilings"),  # whatever was cached
        (bounded(0.3 * PEAK, 0.01 * STREAM, 0.9 * STREAM), "indeterminate"),
        (bounded(0.3 * PEAK, 0.9 * STREAM, 0.95 * STREAM), "bandwidth-bound"),
        (bounded(9.0 * PEAK, 0.01 * STREAM, 0.02 * STREAM), "indeterminate"),  # an upper bound may be above a ceiling
    ],
)
def test_a_bound_of_the_work_decides_only_what_it_can(phase: Phase, code: str) -> None:
    evidence = seen("served", request(prefill=0.95, decode=0.05), (phase,))
    found = phase_verdict(phase, evidence)
    assert found.code == code
    told = sentence_of(found)
    if code == "indeterminate":
        assert found.numbers["why"] == "work-bounded"
        assert "nobody says the hits, so its FLOP are at most" in told
    if code == "below-ceilings":
        assert "at most 30 % of" in told
    assert utilisation(evidence).value is None
    (matrix, *_) = counters_of(evidence, "prefill")
    assert "share" not in matrix.beside
    assert counter_words(matrix).startswith("at most ")


def facts_of(verdict: str = "agrees", boards: list[str] | None = None, stack: dict[str, object] | None = None) -> Facts:
    check = PrecisionCheck("weights", "bf16", "bf16", verdict, "native", "by hand")  # type: ignore[arg-type]
    fields = {name: observed(value, "by hand") for name, value in (stack or {}).items()}
    fields |= {"accelerator.uuid": observed(boards, "by hand")} if boards else {}
    return Facts(ExecutorRecord(fields), precision=(check,))


@pytest.mark.parametrize(
    ("given", "metrics", "says"),
    [
        ({"shape": None}, {}, "the model behind the server is not known"),
        ({"regime": AS_SERVED}, {}, "does not say its formats"),
        ({"facts": facts_of("differs")}, {}, "does not say its formats"),
        ({"facts": facts_of(boards=["GPU-a", "GPU-b"])}, {}, "over its 2 devices"),
        ({}, told(draft_acceptance=0.6), "speculates"),
    ],
)
def test_work_that_is_not_known_has_its_reason(given, metrics, says) -> None:
    for phase in phases([row(0, (100, 120))], metrics, **given):
        assert says in str(phase.reason)
        assert place_of(phase, CEILINGS) is None


def test_answers_of_one_token_and_failures_have_no_step() -> None:
    _, decode = phases([row(0, (100,)), failed(0, 300, (100, 200))])
    assert decode.reason == "no answer has a second token"
