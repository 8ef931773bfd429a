"""What two sides differ in: asked and observed, with the role of each field and the things that vary."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from sides import side
from twinlens.comparison.difference import RULES, differences, rule_of_path
from twinlens.comparison.side import Side
from twinlens.comparison.verdict import things
from twinlens.record.executor.facts import Facts
from twinlens.record.executor.field import FIELDS
from twinlens.record.executor.record import ExecutorRecord, Fact, observed
from twinlens.record.run import Run
from twinlens.spec.study import ExecutorSpec


def named(a: Side, b: Side) -> dict[str, tuple[str, str]]:
    return {difference.field: (difference.aspect, difference.role) for difference in differences(a, b)}


def test_two_sides_that_were_asked_and_ran_the_same_do_not_differ() -> None:
    assert differences(side("a"), side("b")) == ()


@pytest.mark.parametrize(
    ("setting", "field", "rule"),
    [
        ("point.precision=bf16", "point.precision", ("precision", "V")),
        ("point.batch=4", "point.batch", ("batching", "V")),
        ("workload.input_tokens.value=99", "workload.input_tokens", ("workload", "M")),
        ("protocol.duration_s=9", "protocol.duration_s", ("protocol", "Q")),
        ("protocol.repeats=7", "protocol.repeats", ("protocol", "C")),
        ("protocol.seed=7", "protocol.seed", ("content", "Q")),
    ],
)
def test_what_was_asked_has_a_role(setting: str, field: str, rule: tuple[str, str]) -> None:
    assert named(side("a"), side("b", asked=[setting])) == {field: rule}


@pytest.mark.parametrize(
    ("key", "value", "rule"),
    [
        ("host.cpu.model", "Xeon", ("machine", "Q")),
        ("accelerator.product", "H100", ("machine", "V")),
        ("host.kernel", "6.2", ("operating system", "Q")),
        ("software.driver.version", "560", ("driver", "V")),
        ("software.framework.version", "2.14", ("framework", "V")),
        ("model.weights_hash", "bb", ("model", "M")),
        ("precision.weights", "bf16", ("precision", "M")),  # one name, two formats
    ],
)
def test_what_ran_has_a_role(key: str, value: str, rule: tuple[str, str]) -> None:
    assert named(side("a"), side("b", stack={key: value})) == {key: rule}


def test_formats_that_the_precision_asked_for_brings_may_vary() -> None:
    names = named(side("a"), side("b", asked=["point.precision=bf16"], stack={"precision.weights": "bf16"}))
    assert names == {"point.precision": ("precision", "V"), "precision.weights": ("precision", "V")}


def test_a_default_that_nobody_said_of_a_watched_loop_is_no_difference_to_what_was_asked() -> None:
    asked = side("a", lens="training", asked=["workload.learning_rate=0.5", "protocol.seed=9"])
    loop = side("b", lens="training")
    executor = ExecutorSpec(kind="own-loop")
    runs = tuple(replace(run, spec=run.spec.model_copy(update={"executor": executor})) for run in loop.runs)
    found = named(asked, replace(loop, runs=runs))
    assert "executor.kind" in found
    assert not {"workload.learning_rate", "protocol.seed", "protocol.duration_s"} & found.keys()
    assert "workload.learning_rate" in named(asked, loop)


def test_a_value_beside_an_unknown_one_is_no_known_difference_and_two_unknowns_are_none() -> None:
    (one,) = differences(side("a"), side("b", stack={"software.driver.version": None}))
    assert (one.field, one.a, one.b, one.is_known) == ("software.driver.version", ("550",), (), False)
    assert differences(*(side(name, stack={"software.driver.version": None}) for name in "ab")) == ()


def test_the_same_weights_under_another_name_are_one_model_and_other_weights_are_not() -> None:
    again, other = ("workload.model=small",), {"model.weights_hash": "bb"}
    assert named(side("a"), side("b", asked=again)) == {"workload.model": ("model", "C")}
    names = named(side("a"), side("b", asked=again, stack=other))
    assert names["workload.model"] == names["model.weights_hash"] == ("model", "M")


def test_weights_that_another_seed_made_are_content() -> None:
    names = named(side("a"), side("b", asked=["protocol.seed=3"], stack={"model.weights_hash": "bb"}))
    assert names["model.weights_hash"] == ("content", "Q")


def test_repeats_that_draw_their_weights_by_seed_are_one_model() -> None:
    drawn = {"model.weights_hash": observed("bb", "config, seed and generator")}
    one = side("a")
    ours, theirs = ({"model.weights_hash": observed(hash, "config and seed")} for hash in ("aa", "bb"))
    sides = [replace(one, runs=tuple(_with(run, facts) for run in one.runs)) for facts in (ours, theirs, drawn)]
    assert named(*sides[:2])["model.weights_hash"] == ("content", "Q")
    assert sides[1].runs != sides[2].runs
    assert named(*sides[1:]) == {}, "where the hash came from is no difference"
    assert named(one, sides[1])["model.weights_hash"] == ("model", "M"), "weights of a folder were not drawn"


def _with(run: Run, facts: dict[str, Fact]) -> Run:
    assert run.facts is not None
    return replace(run, facts=Facts(ExecutorRecord({**run.facts.executor.facts, **facts})))


def test_every_field_of_a_spec_and_every_compared_field_has_a_rule() -> None:
    spec = side("a").spec
    paths = [f"{table}.{name}" for table in ("workload", "point", "protocol", "executor") for name in spec[table]]
    assert len(paths) == 46
    assert all(rule_of_path(path).role in "MVQC" for path in paths)
    assert {FIELDS[key].letter[0] for key in RULES} == set("ABCDEFH")
    with pytest.raises(KeyError):
        rule_of_path("sweep.batch")


def aspects(a: Side, b: Side) -> dict[str, tuple[list[str], list[str]]]:
    found = things(differences(a, b))
    return {each.aspect: ([x.field for x in each.fields], [x.field for x in each.brings]) for each in found}


def test_two_things_that_vary_are_two() -> None:
    stack = {"software.driver.version": "560", "precision.weights": "bf16"}
    assert aspects(side("a"), side("b", asked=["point.precision=bf16"], stack=stack)) == {
        "precision": (["point.precision", "precision.weights"], []),
        "driver": (["software.driver.version"], []),
    }


@pytest.mark.parametrize(
    ("stack", "lead", "brings"),
    [
        ({"software.runtime.name": "vllm", "software.framework.version": "2.9"}, "runtime", "framework"),
        ({"software.framework.version": "2.9", "compiler.version": "2.9"}, "framework", "compiler"),
        ({"accelerator.product": "H100", "software.framework.threads": 16}, "machine", "threads"),
        ({"compiler.flags": "x", "serving.graphs": "none"}, "compiler", "graphs"),
    ],
)
def test_what_comes_along_with_a_change_is_no_thing_of_its_own(stack: dict[str, Any], lead: str, brings: str) -> None:
    other = dict.fromkeys(stack, "before")
    ((aspect, (fields, along)),) = aspects(side("a", stack=other), side("b", stack=stack)).items()
    assert aspect == lead
    assert len(fields) == len(along) == 1
    assert brings in along[0]


def test_an_option_that_was_asked_for_is_a_thing_of_its_own_beside_another_runtime() -> None:
    b = side("b", options={"step_s": 0.2}, stack={"software.runtime.name": "vllm"})
    assert list(aspects(side("a"), b)) == ["runtime", "settings"]


def test_a_second_machine_with_a_second_driver_is_two_things() -> None:
    b = side("b", stack={"accelerator.product": "H100", "software.driver.version": "560"})
    assert list(aspects(side("a"), b)) == ["driver", "machine"]
