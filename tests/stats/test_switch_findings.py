"""Findings on optimisations that were on: random weights flatter speculation, and a prefix cache needs prefixes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from material import fixed, inference, spec_of
from twinlens.record.estimate import Estimate
from twinlens.record.executor.facts import Facts
from twinlens.record.executor.record import ExecutorRecord, declared
from twinlens.record.finding import Finding
from twinlens.reporting.wording.finding import sentence_of
from twinlens.stats.finding.failures import optimisations


def ratio(value: float) -> Estimate:
    return Estimate(value, "1", "of counters", "measured", n=6)


def found(
    facts: dict[str, Any], metrics: dict[str, Estimate], *, is_random: bool = True, **workload: Any
) -> list[Finding]:
    record = ExecutorRecord({name: declared(value, "/server_info") for name, value in facts.items()})
    findings = (Finding("random-weights-served", "notes"),) if is_random else ()
    data = inference(
        "vllm", "small", options={"prefix_caching": True}, arrival={"kind": "closed"}, point={"concurrency": 2},
        input_tokens=fixed(64), fidelity_prompts=0, **workload,
    )  # fmt: skip
    run: Any = SimpleNamespace(
        spec=spec_of(data),
        facts=Facts(record, findings=findings),
        sections=SimpleNamespace(server="up"),
        requests=[0] * 8,
    )
    return list(optimisations(run, metrics))


def test_speculation_with_random_weights_is_said_with_the_accepted_share() -> None:
    spoken = {"serving.speculative": {"method": "ngram", "num_speculative_tokens": 3}}
    (one,) = found(spoken, {"draft_acceptance": ratio(0.93)})
    assert (one.code, one.severity) == ("speculation-flattered", "warns")
    assert "93 % of the drafted tokens were accepted" in sentence_of(one)
    (silent,) = found(spoken, {})
    assert "does not say how many were accepted" in sentence_of(silent)
    assert found(spoken, {"draft_acceptance": ratio(0.6)}, is_random=False) == []
    assert found({"serving.speculative": "none"}, {}) == []


def test_a_prefix_cache_stands_beside_what_the_prompts_have_in_common() -> None:
    on = {"serving.prefix_cache": True}
    (one,) = found(on, {"prefix_hit_ratio": ratio(0.7)}, prefix={"tokens": 192})
    # 8 requests of 192 + 64 tokens, one prefix: the first finds nothing, seven find 192 of 256 tokens.
    assert one.numbers["shared"] == 7 * 192 / (8 * 256)
    assert sentence_of(one) == "70 % of the prompt tokens came from the prefix cache; by the workload 66 % could."
    (none_shared,) = found(on, {"prefix_hit_ratio": ratio(0.0)})
    assert sentence_of(none_shared).endswith("by the workload 0 % could.")
    assert found({"serving.prefix_cache": False}, {"prefix_hit_ratio": ratio(0.0)}) == []
