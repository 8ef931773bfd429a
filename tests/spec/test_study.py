"""A study's runs: which, in what order, with which seeds."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from material import inference, spec_of, study_of, training
from twinlens.errors import BadInput
from twinlens.spec.load import parse
from twinlens.spec.model.any_model import any_model
from twinlens.spec.study import put_at


def swept(repeats: int, seed: int = 0) -> list[tuple[str, int, int]]:
    sweep = {"precision": ["fp32", "bf16", "fp16"], "batch": [1, 4]}
    study = study_of(inference("fake", sweep=sweep, protocol={"repeats": repeats, "seed": seed}))
    return [(run.point.precision, run.point.batch, run.repeat) for run in study.runs()]


@given(st.integers(1, 5), st.integers(0, 99))
def test_every_point_is_measured_once_in_every_repeat(repeats: int, seed: int) -> None:
    order = swept(repeats, seed)
    assert len(set(order)) == len(order) == 6 * repeats
    assert [repeat for *_, repeat in order] == sorted(repeat for *_, repeat in order)
    assert order == swept(repeats, seed), "the same seed, the same order"


def test_no_point_always_goes_first() -> None:
    first = Counter(swept(1, seed)[0][:2] for seed in range(300))
    assert len(first) == 6
    assert max(first.values()) < 90  # 50 expected, standard deviation 6.5


def test_the_points_themselves_stay_in_the_order_of_the_file() -> None:
    study = study_of(inference("fake", sweep={"batch": [4, 1], "precision": ["bf16", "fp32"]}))
    assert [(r.point.batch, r.point.precision) for r in study.point_runs()] == [
        (4, "bf16"), (4, "fp32"), (1, "bf16"), (1, "fp32"),
    ]  # fmt: skip


def test_a_sweep_may_name_any_field() -> None:
    study = study_of(training("fake", sweep={"workload.global_batch": [2, 4], "executor.threads": [1, 2]}))
    found = {(run.workload.global_batch, run.executor.threads) for run in study.runs()}  # type: ignore[union-attr]
    assert found == {(2, 1), (2, 2), (4, 1), (4, 2)}


def test_a_study_at_another_point_is_no_longer_swept_over_it() -> None:
    study = study_of(training("fake", sweep={"precision": ["fp32", "bf16"], "microbatch": [2, 4]}))
    assert [run.point.microbatch for run in study.at(precision="bf16").point_runs()] == [2, 4]
    assert study.at(precision="bf16").point.precision == "bf16"
    assert len(study.point_runs()) == 4, "the first is as it was"


def test_seeds_differ_between_repeats_and_between_seeds() -> None:
    seeds = {
        run.seed
        for seed in range(5)
        for run in study_of(training("fake", protocol={"repeats": 9, "seed": seed})).runs()
    }
    assert len(seeds) == 45


def test_placing_makes_the_tables_between_and_breaks_no_value() -> None:
    data: dict[str, object] = {"a": {"b": 1}}
    put_at(data, "a.c.d", 2)
    assert data == {"a": {"b": 1, "c": {"d": 2}}}
    with pytest.raises(TypeError, match="holds a value"):
        put_at(data, "a.b.x", 3)


def test_ways_of_batching_stand_in_one_study_each_with_its_own_fields() -> None:
    asked = inference(
        "fake",
        arrival={"kind": "poisson"},
        point={"rate_per_s": 4.0, "batch": 8, "timeout_s": 0.05, "in_flight": 16},
        sweep={"admission": ["static", "dynamic", "continuous"]},
    )
    points = [run.point for run in study_of(asked).point_runs()]
    assert [(p.admission, p.batch, p.timeout_s, p.in_flight) for p in points] == [
        ("static", 8, None, None), ("dynamic", 8, 0.05, None), ("continuous", 1, None, 16),
    ]  # fmt: skip


def test_a_timeout_that_is_swept_makes_points_of_the_policy_that_reads_it_only() -> None:
    asked = inference(
        "fake",
        arrival={"kind": "poisson"},
        point={"rate_per_s": 4.0},
        sweep={"admission": ["static", "dynamic"], "timeout_s": [0.01, 0.1], "batch": [2, 4]},
    )
    points = [(p.admission, p.batch, p.timeout_s) for p in (run.point for run in study_of(asked).point_runs())]
    assert points == [
        ("static", 2, None), ("static", 4, None),
        ("dynamic", 2, 0.01), ("dynamic", 4, 0.01), ("dynamic", 2, 0.1), ("dynamic", 4, 0.1),
    ]  # fmt: skip


def test_a_timeout_beside_one_policy_that_does_not_read_it_is_still_refused() -> None:
    asked = inference("fake", arrival={"kind": "poisson"}, point={"rate_per_s": 4.0, "admission": "static"})
    asked["point"]["timeout_s"] = 0.05
    with pytest.raises(BadInput, match="means nothing without dynamic admission"):
        study_of(asked)


def test_a_model_is_looked_up_once_and_a_run_of_another_workload_has_another(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    config = folder / "config.json"
    config.write_text(json.dumps(any_model("tiny").config))
    run = spec_of(training("fake", str(folder)))
    shape = run.model.shape
    config.write_text("{")
    assert run.model.shape == shape, "the file is read once, so that all who ask see the same model"
    again = run.model_copy(update={"repeat": 1})
    assert again.model.shape == shape
    assert again.fingerprint() != run.fingerprint()
    other = run.model_copy(update={"workload": spec_of(training("fake", "small")).workload})
    assert other.model.name == "small"
    assert run == spec_of(training("fake", str(folder))), "what was looked up is no part of what was asked"


def test_a_precision_is_that_of_the_point() -> None:
    assert spec_of(training("fake", point={"precision": "bf16"})).precision.compute == "bf16"


def test_variants_are_sweeps_of_their_own_at_each_point_of_the_sweep() -> None:
    variants = [{}, {"executor.threads": 1}, {"executor.threads": [2], "batch": [2, 4]}]
    study = study_of(inference("fake", sweep={"precision": ["fp32", "bf16"]}, variants=variants))
    found = [(run.executor.threads, run.point.batch, run.point.precision) for run in study.point_runs()]
    alone = [(0, 1), (1, 1), (2, 2), (2, 4)]
    assert sorted(found) == sorted((*where, precision) for where in alone for precision in ("fp32", "bf16"))
    assert study.swept == {"precision", "executor.threads", "batch"}


def test_a_variant_that_says_the_default_is_no_second_point() -> None:
    study = study_of(inference("fake", variants=[{}, {"batch": [1, 4]}, {"point.batch": 4}]))
    assert [run.point.batch for run in study.point_runs()] == [1, 4]


def test_a_variants_own_value_goes_before_that_of_the_sweep() -> None:
    study = study_of(inference("fake", sweep={"batch": [1, 2]}, variants=[{}, {"batch": 8, "precision": "bf16"}]))
    assert [(run.point.batch, run.point.precision) for run in study.point_runs()] == [
        (1, "fp32"), (2, "fp32"), (8, "bf16"),
    ]  # fmt: skip


def test_what_is_set_goes_before_the_variants() -> None:
    data = inference("fake", variants=[{"precision": ["fp32", "bf16"]}, {"batch": [2, 4]}])
    assert {run.point.precision for run in parse(data, ["point.precision=bf16"]).point_runs()} == {"bf16"}
    swept = parse(data, ["sweep.precision=['bf16', 'fp16']"]).point_runs()
    assert {run.point.precision for run in swept} == {"bf16", "fp16"}
    at = study_of(data).at(precision="fp16")
    assert {run.point.precision for run in at.point_runs()} == {"fp16"}


def test_a_study_of_too_many_points_in_its_variants_is_refused_before_they_are_made() -> None:
    many = {f"executor.options.a{place}": list(range(10)) for place in range(9)}
    with pytest.raises(BadInput, match="1000000000 points"):
        study_of(inference("fake", variants=[many]))
