"""Two methods of fine-tuning: other work, which may be set beside each other if that is said."""

from __future__ import annotations

from sides import side
from twinlens.comparison.difference import workload_hash
from twinlens.comparison.side import Side
from twinlens.comparison.verdict import compare
from twinlens.reporting.wording.finding import sentence_of


def trained(method: str, rates: tuple[float, ...], weights: str) -> Side:
    facts = {"precision.weights": weights}
    return side(method, {"training_tokens_per_s": rates}, lens="training", method=method, stack=facts)


def test_a_comparison_of_two_methods_says_the_method_and_not_the_formats_that_it_brings() -> None:
    full, lora = trained("full", (99.0, 100.0, 101.0), "fp32"), trained("lora", (149.0, 150.0, 151.0), "bf16")
    found = compare(full, lora)
    assert found.verdict == "comparable"
    (said,) = [sentence_of(finding) for finding in found.findings]
    assert said == "Only the workload differs (method full → lora): a ratio can be attributed to it."
    assert found.effects[0].ratio.value is not None


def test_two_methods_are_not_the_same_workload() -> None:
    rates = (99.0, 100.0, 101.0)
    hashes = {workload_hash(trained(method, rates, "fp32")) for method in ("full", "lora", "dora", "qlora", "lora")}
    assert len(hashes) == 4
