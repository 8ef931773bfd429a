"""Tests of a trainer: steps that follow each other, phases that fit into them, the work that was asked."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from twinlens.executors.refuse import refuse_unsupported
from twinlens.executors.registry import trainer
from twinlens.record.executor.facts import Facts
from twinlens.record.step import Marks
from twinlens.spec.study import RunSpec
from twinlens.spec.workload.workload import TrainingWorkload
from twinlens.testing.case import Case
from twinlens.testing.definition import quiet
from twinlens.testing.evidence import assert_says_who_it_is

STEPS = 4
_PHASES = ("data_ns", "forward_ns", "backward_ns", "communicate_ns", "optimize_ns")


@dataclass(frozen=True)
class Trained:
    """A trainer that has done some steps."""

    spec: RunSpec
    facts: Facts
    marks: list[Marks]


class Training:
    """Tests of one `case` that trains."""

    case: Case

    def pytest_generate_tests(self, metafunc: Any) -> None:
        if "training_model" in metafunc.fixturenames:
            metafunc.parametrize("training_model", self.case.models(), scope="class")

    @pytest.fixture(scope="class")
    @classmethod
    def trained(cls, training_model: str) -> Iterator[Trained]:
        spec = cls.case.spec("training", training_model)
        refuse_unsupported(spec)
        opened = trainer(cls.case.kind)
        try:
            facts = opened.open(spec, quiet)
            yield Trained(spec, facts, [opened.step() for _ in range(STEPS)])
        finally:
            opened.close()

    def test_a_trainer_says_who_it_is_and_its_facts_survive_json(self, trained: Trained) -> None:
        assert_says_who_it_is(trained.facts)

    def test_steps_follow_each_other_in_whole_nanoseconds(self, trained: Trained) -> None:
        at_ns = 0
        for marks in trained.marks:
            assert all(type(value) is int for value in (marks.begin_ns, marks.end_ns, marks.samples, marks.tokens))
            assert at_ns <= marks.begin_ns < marks.end_ns
            at_ns = marks.end_ns

    def test_the_phases_of_a_step_fit_into_it(self, trained: Trained) -> None:
        for marks in trained.marks:
            spent = [getattr(marks, phase) for phase in _PHASES if getattr(marks, phase) is not None]
            assert all(type(value) is int and value >= 0 for value in spent)
            assert sum(spent) <= marks.end_ns - marks.begin_ns

    def test_a_step_does_what_was_asked(self, trained: Trained) -> None:
        workload = trained.spec.workload
        assert isinstance(workload, TrainingWorkload)
        tokens = 0 if workload.data.kind == "images" else workload.global_batch * workload.seq_len
        for marks in trained.marks:
            assert (marks.kind, marks.samples, marks.tokens) == ("step", workload.global_batch, tokens)
            assert marks.loss is None or 0 <= marks.loss < 20

    def test_a_second_trainer_in_the_same_process_works_beside_the_first(self, training_model: str) -> None:
        spec = self.case.spec("training", training_model)
        first, second = trainer(self.case.kind), trainer(self.case.kind)
        try:
            first.open(spec, quiet)
            second.open(spec, quiet)
            assert first.step().loss == pytest.approx(second.step().loss, rel=1e-5), "same seed, same step"
            first.close()
            assert second.step().begin_ns > 0
        finally:
            second.close()
