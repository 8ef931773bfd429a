"""What a wrong spec says: every misspelt field at once, the unit that is meant, the name that other tools use."""

from __future__ import annotations

import time
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from material import fixed, inference, study_of, training
from twinlens.errors import BadInput
from twinlens.spec.load import dump, load, parse


def said(data: dict[str, Any], *setting: str) -> str:
    with pytest.raises(BadInput) as refused:
        parse(data, setting)
    assert "\n" not in str(refused.value)
    return str(refused.value)


def test_all_misspelt_fields_are_named_at_once() -> None:
    sentence = said(training("fake"), "workload.gobal_batch=3", "point.precison=bf16", "protocol.repeat=2")
    for right in ("'global_batch'", "'precision'", "'repeats'"):
        assert f"did you mean {right}?" in sentence


def test_a_table_in_capitals_is_misspelt_and_not_missing() -> None:
    data = training("fake")
    data["Workload"] = data.pop("workload")
    assert said(data) == "spec: unknown field 'Workload'; did you mean 'workload'?"


@pytest.mark.parametrize(
    ("written", "seconds"), [("5m", "300"), ("500ms", "0.5"), ("2 h", "7200"), ("30s", "30"), ("1.5min", "90")]
)
def test_a_time_with_a_unit_is_told_in_seconds(written: str, seconds: str) -> None:
    sentence = said(training("fake"), f"protocol.duration_s={written}")
    assert f"'protocol.duration_s' is a number of seconds: write {seconds} (got {written!r})" in sentence


@pytest.mark.parametrize(
    ("word", "field"),
    [("rate", "rate_per_s"), ("qps", "rate_per_s"), ("request-rate", "rate_per_s"), ("max_concurrency", "concurrency"),
     ("batch_size", "batch"), ("dtype", "precision"), ("Batch", "batch")],
)  # fmt: skip
def test_what_other_tools_call_a_field_finds_it(word: str, field: str) -> None:
    assert f"did you mean '{field}'?" in said(inference("fake"), f"sweep.{word}=[1, 2]")


def test_a_byte_order_mark_and_an_address_are_named(tmp_path: Path) -> None:
    file = tmp_path / "bom.toml"
    file.write_text(dump(study_of(training("fake"))), encoding="utf-8-sig")
    with pytest.raises(BadInput, match="begins with a byte order mark"):
        load(file)
    for address in ("http://127.0.0.1:8000/v1", "https://example.org/v1"):
        with pytest.raises(BadInput, match="twinlens measure --url"):
            load(Path(address))


@pytest.mark.parametrize(
    "large",
    [
        {"protocol": {"repeats": 100_000}},
        {"protocol": {"repeats": 10**18}},
        {"sweep": {"protocol.seed": list(range(2000))}},
        {"sweep": {f"executor.options.x{n}": list(range(10)) for n in range(12)}},
    ],
)
def test_a_study_that_nobody_measures_is_refused_before_it_is_built(large: dict[str, Any]) -> None:
    begin_s = time.process_time()
    assert "a study has at most 1000 points and 10000 runs" in said(training("fake", **large))
    assert time.process_time() - begin_s < 5.0, "10^12 points would take years"


def test_one_point_is_not_counted_as_several() -> None:
    assert "1 point in 100000 repeats" in said(training("fake", protocol={"repeats": 100_000}))


def test_nothing_is_lost_on_the_way_to_a_file_and_back_or_it_is_refused() -> None:
    assert "is nothing (null)" in said(training("fake", options={"a": [1, {"b": [None]}]}))
    assert "is nothing (null)" in said(training("fake", sweep={"executor.options.a": [None]}))


plain = st.one_of(
    st.booleans(), st.integers(-(2**70), 2**70), st.floats(allow_nan=False, allow_infinity=False), st.text(max_size=8)
)
values = st.recursive(plain, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner))
lengths = st.one_of(
    st.integers(1, 9).map(fixed), st.just("free"), st.just({"kind": "lognormal", "mean": 4.0, "cv": 1.0, "max": 9})
)


@settings(max_examples=80)
@given(
    st.dictionaries(st.text(max_size=5), values, max_size=3),
    st.dictionaries(st.sampled_from(["executor.options.a", "protocol.seed"]), st.lists(values, min_size=1, max_size=3)),
    lengths,
    st.text(max_size=9),
)
def test_whatever_loads_survives_dump_and_load(
    options: dict[str, Any], sweep: dict[str, Any], length: Any, model: str
) -> None:
    data = inference(
        "fake", options=options, sweep=sweep, output_tokens=length, model=model, arrival={"kind": "closed"}
    )
    data["point"] = {"concurrency": 2}
    try:
        study = parse(data)
    except BadInput as refused:
        assert "\n" not in str(refused)  # noqa: PT017  # either is right: it loads, or one sentence says why not
        return
    again = parse(tomllib.loads(dump(study)))
    assert again == study
    assert again.fingerprint() == study.fingerprint()
