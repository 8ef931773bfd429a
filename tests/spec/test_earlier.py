"""Specs of earlier versions: read from records as they are now, and told where a setting has gone in files."""

from __future__ import annotations

from typing import Any

import pytest

from material import inference, training
from twinlens.errors import BadInput
from twinlens.spec.load import parse
from twinlens.spec.source.earlier import modern


def asked(kind: str, **executor: Any) -> dict[str, Any]:
    return {"executor": {"kind": kind, "device": "cpu"} | executor}


def test_settings_of_torch_are_read_as_its_options_and_those_nobody_set_are_left_out() -> None:
    unset = asked("torch", graph="eager", attention="sdpa", layout="auto", options={})
    assert modern(unset) == asked("torch", options={})
    chosen = asked("torch", graph="compiled", attention="eager", layout="row", options={})
    options = {"graph": "compiled", "attention": "eager", "layout": "row"}
    assert modern(chosen) == asked("torch", options=options)


def test_a_server_that_was_started_eagerly_by_default_was_eager() -> None:
    assert modern(asked("vllm", graph="eager"))["executor"]["options"] == {"graph": "eager"}
    assert modern(asked("vllm", graph="auto")) == asked("vllm")
    assert modern({"sweep": {"executor.graph": ["eager"], "batch": [1]}})["sweep"] == {
        "executor.options.graph": ["eager"], "batch": [1],
    }  # fmt: skip


@pytest.mark.parametrize("name", ["graph", "attention", "layout"])
def test_a_spec_file_with_the_old_place_is_told_the_new_one(name: str) -> None:
    with pytest.raises(BadInput, match=f"field 'executor.{name}' has moved: write 'executor.options.{name}'"):
        parse(training("torch", executor={name: "eager"}))
    with pytest.raises(BadInput, match=f"write 'executor.options.{name}'"):
        parse(inference("torch", sweep={f"executor.{name}": ["eager"]}))
