"""The bound of a tuning: what cannot be kept is refused in one sentence, before anything starts."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from each import each
from material import inference, study_of, training
from twinlens.errors import BadInput
from twinlens.spec.load import dump, parse
from twinlens.tuning.bound import WITHIN_SLO, Bound, bound_of
from twinlens.tuning.elsewhere import conditions_of, study_at
from twinlens.tuning.proof import NEW_SEED, guarded_study, proof_study
from twinlens.tuning.propose import candidates, key_of, proposed
from twinlens.tuning.tuning import measure_tuning

BUDGET = {"trials": 8, "wall_h": 0.5, "device_h": 0.5}
TRAINING = {"space": {"step_s": [0.09, 0.1], "microbatch": [1, 2]}, "budget": BUDGET}


def trained(**tune: Any) -> dict[str, Any]:
    data = training("fake", global_batch=4, seq_len=64) | {"tune": TRAINING | tune}
    return data | {"protocol": {"isolate": True}}


def served(arrival: str = "closed", point: dict[str, Any] | None = None, **tune: Any) -> dict[str, Any]:
    data = inference("vllm", arrival={"kind": arrival}, point={"precision": "bf16", **(point or {"concurrency": 4})})
    return data | {"tune": {"space": {"max_sequences": [2, 4, 8]}, "budget": BUDGET} | tune, "protocol": {}}


def bound(data: dict[str, Any]) -> Bound:
    return bound_of(study_of(data))


def test_without_an_objective_it_is_the_sustained_rate_and_candidates_take_turns() -> None:
    assert (bound(trained()).objective.metric, bound(trained()).objective.in_turns) == ("training_tokens_per_s", True)
    assert bound(served()).objective.metric == "output_tokens_per_s"


def test_a_latency_is_the_objective_of_arrivals_at_a_rate_and_each_round_is_a_run() -> None:
    found = bound(served("poisson", {"rate_per_s": 2.0}, objective="ttft_s_p90")).objective
    assert (found.sign, found.in_turns) == (-1, False)


def test_a_search_has_the_highest_rate_within_its_slo_as_objective() -> None:
    data = served("poisson", {}, **{})
    data["point"] = {"precision": "bf16"}
    data["workload"]["slo"] = {"ttft_s": 0.5}
    data["search"] = {"over": "rate_per_s", "start": 1.0}
    assert bound(data).objective.metric == WITHIN_SLO


WRONG: list[tuple[dict[str, Any], str]] = [
    (training("fake") | {"protocol": {}}, r"has no \[tune\]"),
    (trained(space={}), "space is empty"),
    (trained(space={"step": [1]}), "did you mean 'step_s'"),
    (trained(space={"step_s": [0.1]}, tier="settings"), "which it has already"),
    (trained(tier="as-shipped"), 'tier "as-shipped" changes nothing'),
    (trained(space={"precision": ["fp32", "bf16"]}), 'is of the tier "precision"'),
    (trained(objective="tokens"), "is no metric"),
    (trained(objective="ttft_s_p90"), "is of inference, and this spec is training"),
    (trained(objective="training_peak_tokens_per_s"), "is neither better high nor low"),
    (trained(objective="step_s_p90", in_turns=True), "turns show training_tokens_per_s"),
    (trained(constraints=[{"metric": "nonsense", "at_most": 1.0}]), "which is no metric"),
    (trained(constraints=[{"metric": "mfu", "at_least": -1.0}]), "which it can never be"),
    (trained(constraints=[{"metric": "ttft_s_p90", "at_most": 1.0}]), "is of inference"),
    (trained(constraints=[{"metric": "mfu"}]), "one limit: at_most or at_least"),
    (trained(budget={"trials": 0, "wall_h": 1.0, "device_h": 1.0}), "greater than 0"),
    (trained(budget={"trials": 2, "wall_h": 0.0, "device_h": 1.0}), "greater than 0"),
    (trained(budget={"trials": 2}), "missing"),
    (trained(proof={"repeats": 2}), "greater than or equal to 5"),
    (trained(tiers="settings"), "did you mean 'tier'"),
    (served("poisson", {"rate_per_s": 2.0}), "name a latency as the objective"),
    (served(constraints=[{"metric": "goodput_per_s", "at_least": 1.0}]), "needs workload.slo"),
    (trained() | {"sweep": {"microbatch": [1, 2]}}, "leave out sweep and variants"),
    (
        inference("replay", executor={"kind": "replay", "options": {"runs": "x"}}) | {"tune": TRAINING},
        "recorded|replay",
    ),
]


@each(WRONG, named=lambda one: one[1])
def test_a_bound_that_cannot_be_kept_is_one_sentence(data: dict[str, Any], said: str) -> None:
    with pytest.raises(BadInput, match=said) as raised:
        bound(data)
    assert "\n" not in str(raised.value)


def test_a_spec_with_a_tuning_comes_back_from_its_file() -> None:
    study = study_of(trained(constraints=[{"metric": "mfu", "at_least": 0.1}]))
    assert parse(tomllib.loads(dump(study))).fingerprint() == study.fingerprint()


def test_a_spec_without_a_tuning_has_the_fingerprint_that_it_always_had() -> None:
    assert "tune" not in study_of(training("fake")).to_dict()


def test_terms_are_equal_whatever_the_executor_and_its_space() -> None:
    a = bound(served(objective="ttft_s_p90"))
    other = served(objective="ttft_s_p90", space={"max_batched_tokens": [512, 1024]})
    assert a.hash == bound(other).hash
    assert a.asked != bound(other).asked
    assert a.hash != bound(served(objective="ttft_s_p90", budget=BUDGET | {"trials": 9})).hash


@given(st.integers(0, 10_000), st.sampled_from(["tpe", "random", "grid"]))
def test_every_candidate_is_proposed_once_and_the_same_ones_again(seed: int, sampler: Any) -> None:
    of = bound(trained(space={"step_s": [0.09, 0.1, 0.11], "microbatch": [1, 2]}))
    rounds = []
    for _ in range(2):
        seen: dict[str, Any] = {key_of({}): ({}, 0.0)}
        order = []
        while (found := proposed(of.space, of.default, seen, sampler, seed)) is not None:
            settings, _ = found
            assert key_of(settings) not in seen
            seen[key_of(settings)] = (settings, len(seen) / 100)
            order.append(settings)
        rounds.append(order)
    assert rounds[0] == rounds[1]
    assert len(rounds[0]) == len(candidates(of.space, of.default)) - 1


def test_the_proof_has_a_new_seed_and_both_sides_and_the_repeats_asked() -> None:
    of = bound(trained())
    study = proof_study(of, {"step_s": 0.09})
    assert study.protocol.seed == of.study.protocol.seed + NEW_SEED
    assert len(study.points()) == 2
    assert len(study.runs()) == 10
    assert study.tune is None


def test_elsewhere_is_half_and_twice_the_load_and_the_lengths() -> None:
    of = bound(served())
    names = [condition.name for condition in conditions_of(of)]
    assert names == ["2 requests in flight", "8 requests in flight", "8 tokens in a prompt", "32 tokens in a prompt"]
    study = study_at(of, {"max_sequences": 4}, conditions_of(of)[0])
    assert {run.point.concurrency for run in study.runs()} == {2}
    assert len(study.points()) == 2


def test_candidates_that_do_not_fit_together_are_refused_before_anything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("twinlens.tuning.tuning.preflight", lambda study: {})
    monkeypatch.setattr("twinlens.tuning.tuning.uses_gpu", lambda device: True)
    with pytest.raises(BadInput, match=r"each takes 90% of the GPU's memory; set executor.options.memory_share = 0.25"):
        measure_tuning(study_of(served()), tmp_path)
    assert not list(tmp_path.iterdir())


def test_what_the_space_varies_is_no_other_condition() -> None:
    of = bound(trained())
    assert not any("point.microbatch" in condition.changes for condition in conditions_of(of))


def test_a_proof_in_turns_works_long_enough_for_its_rounds() -> None:
    """Eight requests at once may take ten seconds: of two rounds in a repeat no ratio is known."""
    of = bound(served())
    short, long = (proof_study(of, {"max_sequences": 4}, round_s=each).protocol.duration_s for each in (0.5, 10.0))
    assert short == of.study.protocol.duration_s
    assert long >= 8 * 10.0
    alone = bound(served("poisson", {"rate_per_s": 2.0}, objective="ttft_s_p90"))
    assert proof_study(alone, {"max_sequences": 4}, round_s=100.0).protocol.duration_s == 60.0


def test_the_winner_behind_a_server_is_asked_by_the_guards_once_alone_with_new_traffic() -> None:
    found = bound(served())
    study = guarded_study(found, {"max_sequences": 8})
    assert study is not None
    (run,) = study.runs()
    assert run.protocol.guards
    assert run.protocol.pairing == "none"
    assert run.protocol.seed == found.study.protocol.seed + NEW_SEED
    assert run.executor.options["max_sequences"] == 8
    assert guarded_study(bound(served(proof={"guards": False})), {"max_sequences": 8}) is None
    assert guarded_study(bound(trained()), {"microbatch": 2}) is None
