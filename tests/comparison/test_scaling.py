"""Scaling efficiency between two numbers of ranks: strong or weak, either way round, with the ratio's interval."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest

from sides import side
from twinlens.comparison.side import Side
from twinlens.comparison.verdict import compare
from twinlens.record.finding import Finding
from twinlens.reporting.wording.finding import sentence_of
from twinlens.spec.load import parse
from twinlens.spec.source.example import example


def ranks(count: int | None, rates: tuple[float, ...], batch: int = 8, **stack: Any) -> Side:
    facts = {"training.world_size": count} | stack
    return side(f"{count}", {"training_tokens_per_s": rates}, lens="training", stack=facts, global_batch=batch)


def scaling(a: Side, b: Side) -> list[Finding]:
    return [finding for finding in compare(a, b).findings if finding.code == "scaling-efficiency"]


def test_twice_the_ranks_at_one_and_a_half_times_the_rate_is_three_quarters() -> None:
    (found,) = scaling(ranks(2, (99.0, 100.0, 101.0)), ranks(4, (149.0, 150.0, 151.0)))
    efficiency = found.evidence["efficiency"]
    assert efficiency.value == pytest.approx(0.75)
    assert efficiency.low is not None
    assert efficiency.high is not None
    assert 0.7 < efficiency.low < 0.75 < efficiency.high < 0.8
    assert (found.severity, found.subject, found.numbers["fewer"], found.numbers["more"]) == ("notes", "strong", 2, 4)
    assert sentence_of(found).startswith("Strong scaling from 2 to 4 ranks has an efficiency of 75% (7")


def test_it_does_not_matter_which_side_has_more_ranks() -> None:
    few, many = ranks(1, (99.0, 100.0, 101.0)), ranks(4, (199.0, 200.0, 201.0))
    (up,), (down,) = scaling(few, many), scaling(many, few)
    assert up.evidence["efficiency"].value == pytest.approx(0.5)
    assert down.evidence["efficiency"].value == pytest.approx(0.5, rel=1e-3)
    low, high = (getattr(down.evidence["efficiency"], end) for end in ("low", "high"))
    assert low < 0.5 < high


def test_the_same_batch_of_each_rank_is_weak_scaling_and_another_batch_is_neither() -> None:
    one = ranks(1, (99.0, 100.0, 101.0))
    (weak,) = scaling(one, ranks(2, (189.0, 190.0, 191.0), batch=16, **{"accelerator.form_factor": "processor"}))
    assert weak.subject == "weak"
    assert weak.evidence["efficiency"].value == pytest.approx(0.95)
    assert sentence_of(weak).endswith("the batch grows with the ranks; the ranks share the cores of one processor.")
    assert scaling(one, ranks(2, (189.0, 190.0, 191.0), batch=12)) == []


def test_a_batch_that_grows_with_the_ranks_is_compared_in_all_but_what_training_learned() -> None:
    values = {"training_tokens_per_s": (99.0, 100.0, 101.0), "final_loss": (3.0, 3.0, 3.0)}
    one = side("1", values, lens="training", stack={"training.world_size": 1}, global_batch=8)
    two = side("2", values, lens="training", stack={"training.world_size": 2}, global_batch=16)
    other = side("2", values, lens="training", stack={"training.world_size": 2}, global_batch=12)
    found = compare(one, two)
    assert found.verdict == "comparable"
    ratios = {effect.metric: effect.ratio for effect in found.effects}
    assert ratios["training_tokens_per_s"].value == pytest.approx(1)
    assert (ratios["final_loss"].value, ratios["final_loss"].reason) == (None, "the batch grows with the ranks")
    assert compare(one, other).verdict == "not comparable"


def test_the_example_of_weak_scaling_gives_each_rank_the_same_batch() -> None:
    points = parse(tomllib.loads(example("weak-scaling").text)).point_runs()
    batches = {run.executor.options["ranks"]: run.to_dict()["workload"]["global_batch"] for run in points}
    assert batches[2] == 2 * batches[1]


def test_ranks_that_do_not_have_the_same_threads_are_said_with_theirs() -> None:
    threads = "software.framework.threads"
    one, two = (ranks(count, (99.0, 100.0, 101.0), **{threads: 2 // count}) for count in (1, 2))
    for pair in ((one, two), (two, one)):
        (found,) = scaling(*pair)
        assert sentence_of(found).endswith("the global batch stays, with 2 threads each before and 1 after.")
    (same,) = scaling(ranks(1, (99.0, 100.0, 101.0), **{threads: 1}), ranks(2, (99.0, 100.0, 101.0), **{threads: 1}))
    assert "threads" not in sentence_of(same)


@pytest.mark.parametrize("count", [1, None])
def test_one_world_against_its_equal_or_an_unknown_one_scales_nothing(count: int | None) -> None:
    assert scaling(ranks(1, (99.0, 100.0, 101.0)), ranks(count, (99.0, 100.0, 101.0))) == []
