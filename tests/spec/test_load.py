"""Specs from files: what is written comes back, and settings reach the field they name."""

from __future__ import annotations

import copy
import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from twinlens.errors import BadInput
from twinlens.spec.load import dump, load, parse
from twinlens.spec.point import Point
from twinlens.spec.protocol import Protocol
from twinlens.spec.study import ExecutorSpec, RunSpec, Study
from twinlens.spec.workload.length import Fixed, Length, Lognormal, Uniform
from twinlens.spec.workload.workload import Images, InferenceWorkload, LossTarget, Markov, Text, TrainingWorkload

whole = st.integers(1, 2**53)
positive = st.floats(1e-6, 1e9, allow_nan=False)
words = st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1, max_size=12)
names = st.from_regex(r"\A[A-Za-z0-9][A-Za-z0-9._-]{0,20}\Z")
data = st.one_of(
    st.builds(Markov, symbols=st.none() | whole, branches=whole, exponent=st.floats(0, 9)),
    st.builds(Text, kind=st.just("text"), path=words),
    st.builds(Images, kind=st.just("images")),
)
lengths: st.SearchStrategy[Length] = st.one_of(
    st.builds(Fixed, value=whole),
    st.tuples(whole, whole).map(lambda pair: Uniform(kind="uniform", min=min(pair), max=max(pair))),
    st.builds(Lognormal, kind=st.just("lognormal"), mean=positive, cv=positive, max=whole),
)
losses = st.builds(LossTarget, loss_nats=st.none() | positive, every_steps=whole)
gaps = st.builds(LossTarget, gap_nats=positive, loss_nats=st.none() | positive, every_steps=whole)
markov = st.builds(Markov, symbols=st.none() | whole, branches=whole, exponent=st.floats(0, 9))


def training(of: st.SearchStrategy[object], until: st.SearchStrategy[object]) -> st.SearchStrategy[TrainingWorkload]:
    return st.builds(
        TrainingWorkload, kind=st.just("training"), model=words, global_batch=whole, seq_len=whole,
        learning_rate=positive, checkpointing=st.booleans(), data=of, until=until, save=st.booleans(),
    )  # fmt: skip


workloads = st.one_of(
    training(data, st.none() | losses),
    training(markov, gaps),  # a gap needs an entropy rate that is known
    st.builds(
        InferenceWorkload, kind=st.just("inference"), model=words, input_tokens=lengths, output_tokens=lengths,
        data=data, fidelity_prompts=st.integers(0, 99),
    ),
)  # fmt: skip
points = st.builds(
    Point, precision=st.sampled_from(["fp32", "bf16", "fp16"]), batch=whole, microbatch=st.none() | whole
)
executors = st.builds(
    ExecutorSpec, kind=words, threads=st.integers(0, 99),
    options=st.dictionaries(words, st.one_of(st.booleans(), st.integers(-99, 99), positive, words), max_size=3),
)  # fmt: skip
protocols = st.builds(
    Protocol, duration_s=positive, repeats=st.integers(1, 3), seed=st.integers(0, 2**31), isolate=st.booleans()
)
sweeps = st.dictionaries(st.just("batch"), st.lists(whole, min_size=1, max_size=3).map(tuple), max_size=1)
studies = st.builds(
    Study,
    schema=st.just(1),
    name=names,
    executor=executors,
    workload=workloads,
    point=points,
    sweep=sweeps,
    protocol=protocols,
).map(lambda study: meant(study))


def meant(study: Study) -> Study:
    """The same with sizes of the batch that its lens has."""
    whole_batch = study.workload.global_batch if isinstance(study.workload, TrainingWorkload) else None
    if whole_batch is None:
        return study.model_copy(update={"point": study.point.model_copy(update={"microbatch": None})})
    point = {"batch": 1, "microbatch": study.point.microbatch and whole_batch}
    return study.model_copy(update={"point": study.point.model_copy(update=point), "sweep": {}})


@settings(max_examples=60, deadline=None)
@given(studies)
def test_a_spec_that_is_written_and_read_is_the_same_spec(study: Study) -> None:
    assert parse(tomllib.loads(dump(study))) == study


def turned(value: Any) -> Any:
    """The same mapping with its keys the other way round, all the way down."""
    if isinstance(value, dict):
        return {key: turned(value[key]) for key in reversed(value)}
    return [turned(item) for item in value] if isinstance(value, list) else value


@settings(max_examples=40, deadline=None)
@given(studies)
def test_a_fingerprint_does_not_depend_on_the_order_of_keys(study: Study) -> None:
    again = Study.model_validate_json(json.dumps(turned(study.to_dict())))
    assert again.fingerprint() == study.fingerprint()
    assert [run.fingerprint() for run in again.runs()] == [run.fingerprint() for run in study.runs()]


@settings(max_examples=40, deadline=None)
@given(studies, studies)
def test_two_specs_share_a_fingerprint_only_if_they_are_one(a: Study, b: Study) -> None:
    assert (a.fingerprint() == b.fingerprint()) == (a == b)


@settings(max_examples=40, deadline=None)
@given(studies)
def test_every_run_of_a_study_has_a_fingerprint_of_its_own_and_survives_json(study: Study) -> None:
    runs = study.runs()
    kept = {json.dumps(run.to_dict(), sort_keys=True) for run in runs}
    assert len({run.fingerprint() for run in runs}) == len(kept)
    assert len(runs) == study.protocol.repeats * len(study.points())
    for run in runs:
        assert RunSpec.model_validate_json(json.dumps(run.to_dict())) == run


MINIMAL: dict[str, Any] = {"workload": {"kind": "training", "model": "tiny", "global_batch": 2}}


def small(*settings_: str) -> Study:
    return parse(json.loads(json.dumps(MINIMAL)), settings_)


@pytest.mark.parametrize(
    ("setting", "path", "value"),
    [
        ("point.microbatch=2", "point.microbatch", 2),
        ("point.precision=bf16", "point.precision", "bf16"),
        ('point.precision="bf16"', "point.precision", "bf16"),
        ("protocol.duration_s=5", "protocol.duration_s", 5.0),
        ("protocol.tolerance.kl_nats=0.5", "protocol.tolerance.kl_nats", 0.5),
        ("workload.checkpointing=true", "workload.checkpointing", True),
        ('workload.data={kind="text", path="a b=c.txt"}', "workload.data.path", "a b=c.txt"),
        ("executor.options.step_s=0.1", "executor.options", {"step_s": 0.1}),
        ("name=Größe", "name", None),
        ("workload.model=./my models/a", "workload.model", "./my models/a"),
    ],
)
def test_a_setting_changes_the_field_it_names(setting: str, path: str, value: Any) -> None:
    if value is None:
        with pytest.raises(BadInput, match="name"):
            small(setting)
        return
    found: Any = small(setting)
    for part in path.split("."):
        found = getattr(found, part)
    assert found == value
    assert type(found) is type(value)


def test_the_data_of_a_spec_stays_as_it_was() -> None:
    length = {"kind": "fixed", "value": 8}
    workload = {"kind": "inference", "model": "demo-34m", "input_tokens": length, "output_tokens": "free"}
    data = {"executor": {"kind": "openai-http"}, "workload": workload, "point": {"rate_per_s": 2.0}}
    before = copy.deepcopy(data)
    first = parse(data, ["point.rate_per_s=3", "protocol.repeats=2"])
    assert data == before
    assert parse(data).point.rate_per_s == 2.0
    assert first.point.rate_per_s == 3.0


def test_the_last_setting_wins() -> None:
    assert small("point.microbatch=1", "point.microbatch=2").point.microbatch == 2


def test_a_file_names_its_study_unless_it_says_a_name(tmp_path: Path) -> None:
    file = tmp_path / "pretrain.toml"
    file.write_text('[workload]\nkind = "training"\nmodel = "tiny"\nglobal_batch = 2\n')
    assert load(file).name == "pretrain"
    assert load(file, ["name=other"]).name == "other"


def test_a_spec_is_frozen_and_no_type_is_coerced() -> None:
    study = small()
    with pytest.raises(ValueError, match="frozen"):
        study.name = "other"
    with pytest.raises(BadInput, match="valid integer"):
        small('point.batch="8"')


def test_none_is_left_out_and_comes_back_as_none() -> None:
    study = small()
    assert study.point.microbatch is None
    assert "microbatch" not in dump(study)
