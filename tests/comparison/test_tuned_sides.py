"""Executors are compared as tuned only where all had the same bound."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sides import side
from twinlens.comparison.side import Side
from twinlens.comparison.verdict import compare
from twinlens.record.sections import Role, Tuned

TERMS = {"tier": "settings", "budget": {"trials": 12}, "objective": "output_tokens_per_s"}


def marked(one: Side, bound: str | None, role: Role = "tuned", **terms: Any) -> Side:
    tuned = None if bound is None else Tuned(bound, role, TERMS | terms, {"max_sequences": 8})
    runs = tuple(replace(run, sections=replace(run.sections, tuned=tuned)) for run in one.runs)
    return replace(one, runs=runs)


def codes(a: Side, b: Side) -> dict[str, str]:
    return {each.code: each.severity for each in compare(a, b).findings}


def other_executor(name: str, values: Any = None) -> Side:
    one = side(name, values)
    runs = tuple(
        replace(
            run, spec=run.spec.model_copy(update={"executor": run.spec.executor.model_copy(update={"kind": "vllm"})})
        )
        for run in one.runs
    )
    return replace(one, runs=runs)


def test_two_executors_tuned_by_one_bound_may_be_compared() -> None:
    found = codes(marked(side("a"), "one"), marked(other_executor("b"), "one"))
    assert found["tuned-alike"] == "notes"
    assert "tuned-unequally" not in found


def test_two_executors_tuned_by_unequal_bounds_are_not_compared() -> None:
    a, b = marked(side("a"), "one"), marked(other_executor("b"), "two", budget={"trials": 100})
    found = compare(a, b)
    assert found.verdict == "not comparable"
    finding = next(each for each in found.findings if each.code == "tuned-unequally")
    assert finding.numbers["terms"] == ["budget"]
    assert all(effect.ratio.value is None for effect in found.effects)


def test_a_winner_is_not_held_against_another_executor_as_it_comes() -> None:
    found = codes(side("a"), marked(other_executor("b"), "one"))
    assert found["tuned-unequally"] == "disqualifies"


def test_one_executor_before_and_after_its_tuning_is_compared_and_it_is_said() -> None:
    assert codes(side("a"), marked(side("b"), "one"))["tuned-unequally"] == "warns"


def test_a_winner_beside_the_default_of_its_own_tuning_needs_no_word() -> None:
    assert (
        not {"tuned-unequally", "tuned-alike"}
        & codes(marked(side("a"), "one", "default"), marked(side("b"), "one")).keys()
    )


def test_two_defaults_of_unequal_tunings_are_compared_as_they_come() -> None:
    found = codes(marked(side("a"), "one", "default"), marked(other_executor("b"), "two", "default"))
    assert "tuned-unequally" not in found


def test_runs_of_a_search_are_said_to_be_such() -> None:
    assert codes(marked(side("a"), "one", "candidate"), marked(side("b"), "one"))["of-a-search"] == "warns"


def test_who_stands_first_changes_no_severity() -> None:
    a, b = side("a"), marked(other_executor("b"), "one")
    assert codes(a, b)["tuned-unequally"] == codes(b, a)["tuned-unequally"]
