"""Every field of a spec and every option of an executor has a page, from one table."""

from __future__ import annotations

import json
from typing import Annotated

import pytest
from pydantic import BaseModel, TypeAdapter

from each import each
from twinlens.api.reference import explain
from twinlens.errors import BadInput
from twinlens.executors.capabilities import Option
from twinlens.executors.registry import capabilities, executor_names
from twinlens.reporting.reference.option import option_rows
from twinlens.reporting.reference.page import field_page
from twinlens.spec.field import spec_fields, tag_of, toml, unit_of, walk
from twinlens.spec.study import Study

DECLARED = list({path: info for path, info, _ in walk(Study)}.items())
OPTIONS = [(kind, name, option) for kind in executor_names() for name, option in capabilities(kind).options.items()]


@each(DECLARED, lambda declared: declared[0])
def test_every_field_has_one_sentence(path: str, info) -> None:
    assert (info.description or "").endswith("."), path


@each(OPTIONS, lambda option: option[:2])
def test_every_option_has_one_sentence(kind: str, name: str, option: Option) -> None:
    assert option.description.endswith("."), f"{kind}: {name}"


@each(DECLARED, lambda declared: declared[0])
def test_an_example_is_a_value_that_the_field_takes(path: str, info) -> None:
    value = info.get_default(call_default_factory=True)
    if not info.examples:
        assert not info.is_required(), path
        assert value is not None, f"{path} has neither a default nor an example"
        return
    adapter = TypeAdapter(Annotated[info.annotation, info])
    adapter.validate_json(json.dumps(info.examples[0]))


@each(spec_fields(), lambda row: row.path)
def test_a_field_is_explained_by_its_path_with_type_and_default(row) -> None:
    page = field_page(row.path)
    assert page is not None
    assert row.description in page
    assert f"- type: {row.type}" in page
    assert "default: " in page


@each(option_rows(), lambda row: row.name)
def test_an_option_is_explained_by_its_name_with_the_executors_that_have_it(row) -> None:
    page = field_page(row.name)
    assert page is not None
    assert row.description in page
    assert f"of the executors {', '.join(row.executors)}" in page


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("duration_s", "default: 60"),
        ("protocol.steady_s", "unit: seconds"),
        ("rate_per_s", "--at rate_per_s=4"),
        ("url", "executor.options.url"),
        ("api_key_env", "openai-http"),
        ("graph", '"compiled"'),
        ("arrival.cv", "only where workload.arrival.kind is gamma"),
        ("input_tokens.mean", "only where workload.input_tokens.kind is lognormal"),
        ("threads", "read by the executors"),
        ("Point.Precision", "fp32"),
        ("workload.arrival.kind", '"poisson": Open loop, independent exponential gaps'),
    ],
)
def test_the_fields_and_options_that_people_ask_for(word: str, said: str) -> None:
    assert said in explain(word)


def test_a_word_that_is_a_term_and_a_field_leads_to_both() -> None:
    assert explain("precision").startswith("# ")
    assert "twinlens explain point.precision" in explain("precision")
    assert "As a field" not in explain("mfu")


def test_a_field_that_means_two_things_says_both() -> None:
    page = explain("timeout_s")
    assert "## point.timeout_s" in page
    assert "## executor.options.timeout_s" in page


@pytest.mark.parametrize(("word", "near"), [("duration", "'duration_s'"), ("protocol.repeat", "'protocol.repeats'")])
def test_a_misspelt_field_is_refused_with_the_nearest(word: str, near: str) -> None:
    with pytest.raises(BadInput, match=near) as caught:
        explain(word)
    assert caught.value.code == "TL212"


def test_values_are_written_as_in_a_file() -> None:
    assert toml({"a": [1, 2.5, "x"], "b": True}) == '{ a = [1, 2.5, "x"], b = true }'
    assert toml(float("inf")) == "inf"
    assert toml({}) == "{}"


def test_a_unit_comes_from_the_name() -> None:
    assert unit_of("point.rate_per_s") == "per second"
    assert unit_of("workload.input_tokens.max") == "tokens"
    assert unit_of("workload.sessions.turns.max") == ""


def test_a_model_without_a_kind_has_no_tag() -> None:
    class Plain(BaseModel):
        size: int = 1

    assert tag_of(Plain) == ""
