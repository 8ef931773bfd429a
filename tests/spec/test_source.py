"""What may stand where a spec is asked for, and what settings do to it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from material import inference, measured, study_of, training
from twinlens.api.measuring.spec_asked import as_settings
from twinlens.errors import BadInput
from twinlens.record.store import create_study
from twinlens.spec.load import dump, load, load_example
from twinlens.spec.source.example import examples, find_example


def test_an_example_goes_by_its_name_and_a_file_goes_before_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert load("laws") == load("laws.toml")
    Path("laws.toml").write_text(dump(study_of(training("fake"))))
    assert load("laws.toml").name == "small"
    assert load("laws").name == "laws"
    Path("laws").mkdir()
    assert load("laws").name == "laws", "a folder that holds no run is no spec"


def test_a_name_that_is_nearly_right_is_named() -> None:
    with pytest.raises(BadInput, match="did you mean 'chat'") as caught:
        load("chta")
    assert "there is no spec file 'chta'" in str(caught.value)
    with pytest.raises(BadInput, match="list examples"):
        load("zzzzzz")


def test_each_example_says_what_it_is_in_half_a_line() -> None:
    found = examples()
    order = ["demo", "training", "inference", "serving", "collective"]
    assert [each.group for each in found] == sorted((each.group for each in found), key=order.index)
    for each in found:
        assert 10 < len(each.about) <= 48, each.name
        assert each.about.endswith(".")
        assert find_example(f"{each.name}.toml") == each


def test_what_a_study_or_a_run_was_asked_for_can_be_asked_again(tmp_path: Path) -> None:
    study = study_of(training("fake", sweep={"precision": ["fp32", "bf16"]}))
    assert load(create_study(tmp_path, study)) == study
    run = measured(tmp_path, training("fake", point={"precision": "bf16"}))
    again = load(run.folder)
    assert again.runs()[0] == run.spec
    (run.folder / "run.json").write_text('{"asked": 3}')
    with pytest.raises(BadInput, match="does not say what was asked"):
        load(run.folder)


@pytest.mark.parametrize(
    ("point", "kind"), [({"rate_per_s": 2.0}, "poisson"), ({"concurrency": 2}, "closed"), ({}, "lockstep")]
)
def test_arrivals_that_nobody_names_are_those_that_the_point_implies(point: dict, kind: str) -> None:
    study = study_of(inference("fake", point=point))
    assert study.workload.arrival.kind == kind  # type: ignore[union-attr]
    swept = study_of(inference("fake", sweep={name: [value] for name, value in point.items()}))
    assert swept.workload.arrival.kind == kind  # type: ignore[union-attr]


def test_a_search_over_a_rate_implies_arrivals_too() -> None:
    study = study_of(inference("fake", slo={"ttft_s": 1}), 'search.over="rate_per_s"')
    assert study.workload.arrival.kind == "poisson"  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("before", "setting", "kind", "left"),
    [
        ({"rate_per_s": 2.0}, "point.concurrency=4", "closed", {"concurrency": 4}),
        ({"rate_per_s": 2.0}, "sweep.concurrency=[1, 4]", "closed", {}),
        ({"concurrency": 2}, "point.rate_per_s=4", "poisson", {"rate_per_s": 4.0}),
    ],
)
@pytest.mark.parametrize("says_its_arrivals", [True, False])
def test_a_rate_and_a_concurrency_take_each_others_place(
    before: dict, setting: str, kind: str, left: dict, says_its_arrivals: bool
) -> None:
    usual = "poisson" if "rate_per_s" in before else "closed"
    parts = {"arrival": {"kind": usual}} if says_its_arrivals else {}
    study = study_of(inference("fake", point=dict(before), **parts), setting)
    assert study.workload.arrival.kind == kind  # type: ignore[union-attr]
    said = study.point.model_dump(exclude_none=True)
    assert {name: said[name] for name in ("rate_per_s", "concurrency") if name in said} == left


def test_arrivals_that_are_set_are_not_replaced() -> None:
    data = inference("fake", point={"rate_per_s": 2.0}, arrival={"kind": "gamma", "cv": 2.0})
    with pytest.raises(BadInput, match="need a rate"):
        study_of(data, "point.concurrency=4", "workload.arrival.kind=poisson", "workload.arrival.cv=")


@pytest.mark.parametrize(
    ("before", "most"), [({"value": 64}, 64), ({"kind": "uniform", "min": 2, "max": 99}, 99), ({"kind": "free"}, 512)]
)
def test_a_kind_that_is_set_leaves_the_fields_of_the_other_behind(before: dict, most: int) -> None:
    data = inference("openai-http", options={"url": "http://x/v1"}, point={"rate_per_s": 2.0})
    data["workload"]["output_tokens"] = {"kind": "fixed"} | before
    free = study_of(data, "workload.output_tokens.kind=free").workload.output_tokens  # type: ignore[union-attr]
    assert (free.kind, free.max) == ("free", most)


def test_a_field_that_is_set_is_kept_for_a_kind_that_does_not_have_it() -> None:
    settings = ("workload.output_tokens.value=7", "workload.output_tokens.kind=free")
    with pytest.raises(BadInput, match="value"):
        study_of(inference("openai-http", options={"url": "http://x/v1"}, point={"rate_per_s": 2.0}), *settings)


def test_a_field_is_unset_by_nothing() -> None:
    data = training("fake", point={"microbatch": 2})
    assert study_of(data, "point.microbatch=").point.microbatch is None
    assert study_of(training("fake"), 'executor.options={x="a"}', 'executor.options.x=""').executor.options == {"x": ""}
    with pytest.raises(BadInput, match="does not set it"):
        study_of(training("fake"), "protocol.stall=")
    with pytest.raises(BadInput, match="does not set it"):
        study_of(training("fake"), "name.first=")


def test_a_batch_that_nobody_would_make_is_refused() -> None:
    with pytest.raises(BadInput, match=r"point\.batch means nothing to poisson arrivals"):
        study_of(inference("fake", point={"rate_per_s": 2.0}), "sweep.batch=[1, 4]")


def test_the_precision_of_a_server_that_is_up_is_its_own() -> None:
    http = {"kind": "openai-http"}
    assert study_of(inference("openai-http", executor=http)).point.precision == "as-served"
    assert study_of(inference("openai-http", executor=http), "point.precision=bf16").point.precision == "bf16"
    swept = study_of(inference("openai-http", executor=http, sweep={"precision": ["fp32", "bf16"]}))
    assert [run.point.precision for run in swept.point_runs()] == ["fp32", "bf16"]
    for kind in ("torch", "vllm"):
        assert study_of(inference(kind)).point.precision == "fp32"
        with pytest.raises(BadInput, match="a server which is up already"):
            study_of(inference(kind), "point.precision=as-served")
    with pytest.raises(BadInput, match="does not exist for training"):
        study_of(training("torch"), "point.precision=as-served")


def test_a_point_says_in_a_few_words_how_hard() -> None:
    labels = [run.point.label for run in load("chat").point_runs()]
    assert labels == ["bf16 at 2/s", "bf16 at 4/s", "bf16 at 8/s"]
    assert study_of(inference("fake", point={"concurrency": 4})).point.label == "fp32 4 in flight"
    assert study_of(training("fake")).point.label == "fp32"


@pytest.mark.parametrize("example", [each.name for each in examples() if load_example(each.name).swept])
def test_every_swept_field_of_a_shipped_study_can_be_narrowed_from_the_command_line(example: str) -> None:
    whole = load_example(example)
    for path in sorted(whole.swept):
        values = next(grid.get(path, grid.get(f"point.{path}")) for grid in (*whole.variants, whole.sweep)
                      if {path, f"point.{path}"} & set(grid))  # fmt: skip
        (asked,) = as_settings([f"{path}={str(values[0]).lower() if isinstance(values[0], bool) else values[0]}"])
        if isinstance(values[0], dict):
            continue
        narrowed = load(example, [asked])
        ran = [_at(point, path) for point in narrowed.points()]
        assert values[0] in ran
        assert len(narrowed.points()) <= len(whole.points())


def _at(point: dict[str, Any], path: str) -> Any:
    return point.get(path, point.get(f"point.{path}"))


def test_a_ladder_is_narrowed_to_the_variants_of_the_executors_that_are_asked_for() -> None:
    asked = as_settings(["executor.kind=torch,openvino-served"])
    points = load("ladder-inference", asked).points()
    assert [(p["executor.kind"], p["precision"], p.get("executor.options.graph")) for p in points] == [
        ("torch", "fp32", None),
        ("torch", "bf16", None),
        ("torch", "bf16", "compiled"),
        ("openvino-served", "fp32", None),
    ]
    with pytest.raises(BadInput, match="no variant of this spec has that executor; did you mean 'torch'"):
        load("ladder-inference", as_settings(["executor.kind=torhc"]))


def test_an_option_that_variants_name_is_narrowed_where_they_name_it() -> None:
    points = load("ladder-training", as_settings(["executor.options.stage=1", "precision=fp32"])).points()
    assert [p["executor.options.stage"] for p in points if p["executor.kind"] == "torch-deepspeed"] == [1]
    assert [p["executor.options.parallel"] for p in points if p["executor.kind"] == "torch-parallel"] == [
        "ddp", "fsdp2", "tp", "pp",
    ]  # fmt: skip


def test_a_field_that_is_set_takes_the_place_of_a_sweep_over_it() -> None:
    study = load("parallel", ["executor.options.ranks=4"])
    assert [spec.executor.options["ranks"] for spec in study.point_runs()] == [4]
