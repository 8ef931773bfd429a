"""Settings that ship are settings that the executors have, and a space that names others is one sentence."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from each import each
from material import fixed, inference, spec_of, study_of, training
from twinlens.errors import BadInput
from twinlens.executors.launch.options import settings_of as server_settings
from twinlens.executors.refuse import refuse_unsupported
from twinlens.executors.registry import capabilities, executor, executor_names
from twinlens.spec.load import load_example
from twinlens.spec.precision import Lens
from twinlens.spec.study import put_at
from twinlens.tuning.bound import bound_of
from twinlens.tuning.propose import candidates
from twinlens.tuning.setting import (
    Setting,
    allows,
    as_shipped,
    chosen,
    refused,
    settings_of,
    shipped,
    tunable_kinds,
    value_in,
)
from twinlens.tuning.values import read_values

FOLDER = {"kind": "folder", "path": "shards"}
BESIDE: dict[str, dict[str, Any]] = {
    "tensor": {"executor.options.parallel": "fsdp2", "executor.options.ranks": 8},
    "replicate": {"executor.options.parallel": "hsdp", "executor.options.ranks": 8},
}
"""What stands beside a setting where its own conditions name several values and only one goes with its numbers."""


def base(kind: str, lens: Lens) -> dict[str, Any]:
    if lens == "training":
        return training(kind, global_batch=64, data=FOLDER)
    images = kind == "tensorrt"
    return inference(kind, "vit-tiny" if images else "tiny", **({} if images else {"input_tokens": fixed(16)}))


def every_setting() -> Iterator[tuple[str, Lens, Setting]]:
    for kind in tunable_kinds():
        for lens in get_args(Lens):
            yield from ((kind, lens, each) for each in shipped(kind) if lens in each.lenses)


def named(row: tuple[str, Lens, Setting]) -> str:
    return f"{row[0]} {row[1]} {row[2].name}"


@each(every_setting(), named)
def test_every_value_that_ships_is_taken_by_the_spec_and_by_the_executor(
    kind: str, lens: Lens, setting: Setting
) -> None:
    for value in setting.values:
        data = base(kind, lens)
        for other, wanted in setting.only_with.items():
            path = next((one.path for one in shipped(kind) if one.name == other), other)
            put_at(data, path, wanted[-1])
        for path, beside in BESIDE.get(setting.name, {}).items():
            put_at(data, path, beside)
        if setting.path == "workload.data.kind":
            data["workload"]["data"] = {"kind": value}
        put_at(data, setting.path, value)
        if data.get("workload", {}).get("arrival") == {"kind": "closed"}:
            data["point"]["concurrency"] = 2
        spec = spec_of(data)
        refuse_unsupported(spec)
        if executor(kind).launcher is not None:
            server_settings(kind, spec.executor.options, "python", *recipe_of(kind))
        at: Any = spec.to_dict()
        for part in setting.path.split("."):
            at = at[part]
        assert at == value


def recipe_of(kind: str) -> tuple[Any, Any]:
    recipe = executor(kind).server.args[0]  # type: ignore[union-attr]  # a partial of LaunchedServer
    return recipe.graphs, recipe.switches


@each(every_setting(), named)
def test_a_setting_that_ships_is_whole(kind: str, lens: Lens, setting: Setting) -> None:
    kinds = {type(value) for value in setting.values}
    assert len(kinds) == 1
    assert len(set(setting.values)) == len(setting.values) >= 2
    assert (setting.within is not None) == (kinds <= {int, float})
    if setting.within is not None:
        assert all(setting.within[0] <= value <= setting.within[1] for value in setting.values)  # type: ignore[operator]
    known = settings_of(kind, lens)
    assert all(other in known or "." in other for other in setting.only_with)
    assert not setting.not_below or setting.not_below in known
    assert setting.about.endswith(".")
    assert setting.source


def test_every_kind_that_ships_settings_is_installed_and_its_names_and_paths_are_its_own() -> None:
    assert set(tunable_kinds()) <= set(executor_names())
    for kind, lens in itertools.product(tunable_kinds(), get_args(Lens)):
        rows = [one for one in shipped(kind) if lens in one.lenses]
        assert len({one.name for one in rows}) == len({one.path for one in rows}) == len(rows), (kind, lens)
        assert not rows or lens in executor(kind).lenses


def test_every_kind_that_trains_or_serves_here_can_be_tuned() -> None:
    here = {kind for kind in executor_names() if capabilities(kind).runs == "here" and executor(kind).lenses}
    assert here - set(tunable_kinds()) == {"torch-collectives"}


def test_a_space_names_settings_by_their_short_name_or_their_path() -> None:
    space = {"max_sequences": [2, 4, 8], "executor.options.chunked_prefill": "all"}
    found = chosen("vllm", "inference", space)
    assert {name: values for name, (_, values) in found.items()} == {
        "max_sequences": (2, 4, 8),
        "chunked_prefill": (True, False),
    }
    assert found["max_sequences"][0].path == "executor.options.max_sequences"


@pytest.mark.parametrize(
    ("asked", "values"),
    [
        ({"from": 1, "to": 9, "step": 4}, (1, 5, 9)),
        ({"from": 1, "to": 8, "step": 4}, (1, 5)),
        ({"from": 4, "to": 64, "factor": 4}, (4, 16, 64)),
        ({"from": 2, "to": 9, "factor": 1.5}, (2, 3, 4, 7)),  # 2, 3, 4.5, 6.75; 10.1 is beyond
        (["auto", 3], ("auto", 3)),
        ([3], (3,)),
    ],
)
def test_a_range_is_the_values_that_its_step_or_factor_gives(asked: object, values: tuple[object, ...]) -> None:
    assert chosen("vllm", "inference", {"max_sequences": asked})["max_sequences"][1] == values


WRONG: list[tuple[dict[str, object], str]] = [
    ({}, "space to tune is empty; name a setting of vllm: chunked_prefill, "),
    ({"max_sequence": [1]}, "'max_sequence', which is no setting of vllm for inference; did you mean 'max_sequences'"),
    ({"executor.options.max_sequencs": [1]}, "did you mean 'executor.options.max_sequences'"),
    ({"max_sequences": []}, "tune.space.max_sequences: its list of values is empty"),
    ({"max_sequences": 4}, "it is a list of values, "),
    ({"max_sequences": "alle"}, "it is a list of values, "),
    ({"max_sequences": [4, 4]}, "4 stands there twice"),
    ({"max_sequences": [0]}, "0 is outside 1 to 65536"),
    ({"max_sequences": [1.5]}, "it takes a whole number, not 1.5"),
    ({"max_sequences": [True]}, "it takes a whole number, not True"),
    ({"max_sequences": ["many"]}, "it takes a whole number, not 'many'"),
    ({"max_sequences": list(range(1, 102))}, "101 values are more than 100"),
    ({"max_sequences": {"from": 1, "to": 1000, "step": 1}}, "are more than 100"),
    ({"max_sequences": {"from": 1, "to": 4}}, "it is a list of values, "),
    ({"max_sequences": {"from": 1, "to": 4, "step": 1, "factor": 2}}, "it is a list of values, "),
    ({"max_sequences": {"from": 4, "to": 1, "step": 1}}, "from is at most to, and step is above 0"),
    ({"max_sequences": {"from": 1, "to": 4, "factor": 1}}, "factor is above 1, and from above 0"),
    ({"max_sequences": {"from": 1, "to": 4, "step": 0.5}}, "it takes whole numbers"),
    ({"max_sequences": {"from": "1", "to": 4, "step": 1}}, "from, to and step are numbers"),
    ({"chunked_prefill": [1]}, "it takes true or false, not 1"),
    ({"graph": ["eagre"]}, "it has no value 'eagre'; did you mean 'eager'"),
    ({"graph": ["auto"], "executor.options.graph": ["eager"]}, "names graph twice"),
    (
        {"max_sequences": [512], "max_batched_tokens": [64, 128]},
        r"no value of tune.space.max_batched_tokens \(64 or 12",
    ),
]


@pytest.mark.parametrize(("space", "words"), WRONG, ids=[words[:40] for _, words in WRONG])
def test_a_space_that_cannot_be_tuned_is_refused_in_one_sentence(space: dict[str, object], words: str) -> None:
    with pytest.raises(BadInput, match=words) as wrong:
        chosen("vllm", "inference", space)
    assert wrong.value.code == "TL265"
    assert "\n" not in str(wrong.value)


def test_a_kind_without_settings_names_those_that_have_some() -> None:
    with pytest.raises(BadInput, match="no settings ship for inference on executor 'openai-http'"):
        settings_of("openai-http", "inference")
    with pytest.raises(BadInput, match="no settings ship for training on executor 'vllm'"):
        settings_of("vllm", "training")
    with pytest.raises(BadInput, match="did you mean 'vllm'"):
        settings_of("vlm", "inference")


def test_a_setting_without_effect_on_the_spec_or_beside_the_space_is_contradictory() -> None:
    plain = study_of(training())
    with pytest.raises(BadInput, match=r'only with workload\.data\.kind = "folder", and workload\.data\.kind is "mark'):
        chosen("torch", "training", {"loader_workers": "all"}, plain)
    assert chosen("torch", "training", {"loader_workers": "all"}, study_of(training(data=FOLDER)))
    with pytest.raises(BadInput, match=r"tune\.space\.offload has an effect only with stage = 1 or 2 or 3, and stage"):
        chosen("torch-deepspeed", "training", {"stage": [0], "offload": "all"})
    with pytest.raises(BadInput, match="whole_below has an effect only with stage = 3, and stage is 2"):
        chosen("torch-deepspeed", "training", {"whole_below": [0, 10]}, study_of(training("torch-deepspeed")))


def test_a_combination_that_has_no_effect_is_refused_but_for_the_value_that_asks_for_nothing() -> None:
    study = study_of(training("torch-deepspeed"))
    found = chosen("torch-deepspeed", "training", {"stage": [0, 2], "offload": "all"}, study)
    assert refused({"stage": 0, "offload": "none"}, found, study) == ""
    assert refused({"stage": 2, "offload": "optimizer"}, found, study) == ""
    said = refused({"stage": 0, "offload": "optimizer"}, found, study)
    assert said == 'offload = "optimizer" has no effect with stage = 0, only with 1 or 2 or 3'
    served = chosen("vllm", "inference", {"max_sequences": [16, 256], "max_batched_tokens": [128, 512]})
    assert refused({"max_sequences": 256, "max_batched_tokens": 128}, served) == (
        "max_batched_tokens = 128 is less than max_sequences = 256, which it may not be"
    )
    assert refused({"max_sequences": "auto", "max_batched_tokens": 128}, served) == ""


def test_the_default_candidate_changes_nothing_and_a_tier_allows_what_those_before_it_allow() -> None:
    assert as_shipped("vllm", "inference", study_of(inference("vllm"))) == {}
    served = settings_of("vllm", "inference")
    assert [allows(tier, served["kv_format"]) for tier in ("as-shipped", "settings", "precision", "open")] == [
        False,
        False,
        True,
        True,
    ]
    assert not allows("as-shipped", served["max_sequences"])
    assert not allows("precision", served["prefix_caching"])


@given(
    first=st.integers(1, 500),
    last=st.integers(1, 500),
    step=st.integers(1, 500),
    by=st.sampled_from(["step", "factor"]),
)
def test_a_range_rises_within_its_ends_or_is_refused(first: int, last: int, step: int, by: str) -> None:
    try:
        found = read_values({"from": first, "to": last, by: step}, (1, 2), (1, 500))
    except ValueError:
        assert first > last or (by == "factor" and step == 1) or (by == "step" and (last - first) // step >= 100)
    else:
        assert found[0] == first
        assert list(found) == sorted(set(found))
        assert found[-1] <= last < (found[-1] + step if by == "step" else found[-1] * step)


@given(
    st.recursive(st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=5), st.lists, max_leaves=5)
)
def test_whatever_a_user_writes_is_read_or_refused(asked: object) -> None:
    with suppress(ValueError):
        found = read_values(asked, (1, 2), (1, 500))
        assert found
        assert all(type(value) is int and 1 <= value <= 500 for value in found)


def test_the_value_of_a_spec_is_what_it_says_or_what_stands_for_it_unsaid() -> None:
    study = study_of(training("torch-deepspeed", options={"bucket_mib": 4.0}))
    known = settings_of("torch-deepspeed", "training")
    had = {name: value_in(study, known[name]) for name in ("bucket_mib", "stage", "offload", "microbatch", "threads")}
    assert had == {"bucket_mib": 4.0, "stage": 2, "offload": "none", "microbatch": None, "threads": 1}
    assert value_in(study_of(inference("vllm")), settings_of("vllm", "inference")["max_sequences"]) == "auto"


def test_a_setting_with_a_condition_outside_the_space_is_proposed_and_one_without_effect_is_not() -> None:
    study = study_of(training("torch-deepspeed", data=FOLDER))
    space = chosen(
        "torch-deepspeed", "training", {"stage": [0, 3], "whole_below": [0, 9], "loader_workers": [2]}, study
    )
    default = {name: value_in(study, setting) for name, (setting, _) in space.items()}
    found = [dict(each) for each in candidates(space, default)]
    assert {"stage": 3, "whole_below": 9, "loader_workers": 2} in found
    assert [each for each in found if "whole_below" in each and each.get("stage") != 3] == []
    assert all(refused({**default, **each}, space, study) == "" for each in found)


@each(["tune-vllm", "tune-llama-cpp", "tune-training", "tune-inference"])
def test_every_candidate_of_a_shipped_tuning_may_run(name: str) -> None:
    bound = bound_of(load_example(name))
    found = candidates(bound.space, bound.default)
    assert bound.tune.budget.trials <= len(found) <= 50
    assert all(run.workload.kind == bound.study.lens for run in map(bound.spec, found))
    for settings in found:
        refuse_unsupported(bound.spec(settings))
        assert refused({**bound.default, **settings}, bound.space, bound.study) == ""
