"""Tests of an exchanger: exchanges that follow each other, and a time of each rank in each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from twinlens.executors.refuse import refuse_unsupported
from twinlens.executors.registry import exchanger
from twinlens.record.executor.facts import Facts
from twinlens.record.step import Exchange
from twinlens.testing.case import Case
from twinlens.testing.definition import quiet
from twinlens.testing.evidence import assert_says_who_it_is

_TIMES = 4


@dataclass(frozen=True)
class Exchanged:
    """An exchanger that has done some exchanges, in as many answers."""

    facts: Facts
    answers: list[tuple[Exchange, ...]]

    @property
    def rows(self) -> list[Exchange]:
        return [row for answer in self.answers for row in answer]


class Exchanging:
    """Tests of one `case` that lets ranks exchange a buffer."""

    case: Case

    def pytest_generate_tests(self, metafunc: Any) -> None:
        """No test of these has a parameter."""

    @pytest.fixture(scope="class")
    @classmethod
    def exchanged(cls) -> Iterator[Exchanged]:
        spec = cls.case.spec("collective", "")
        refuse_unsupported(spec)
        opened = exchanger(cls.case.kind)
        try:
            facts = opened.open(spec, quiet)
            yield Exchanged(facts, [opened.exchange() for _ in range(_TIMES)])
        finally:
            opened.close()

    def test_an_exchanger_says_who_it_is_and_its_facts_survive_json(self, exchanged: Exchanged) -> None:
        assert_says_who_it_is(exchanged.facts)

    def test_every_answer_holds_an_exchange(self, exchanged: Exchanged) -> None:
        assert all(exchanged.answers)

    def test_exchanges_follow_each_other_in_whole_nanoseconds(self, exchanged: Exchanged) -> None:
        at_ns = 0
        for row in exchanged.rows:
            assert all(type(value) is int for value in (row.begin_ns, row.end_ns, *row.rank_ns))
            assert at_ns <= row.begin_ns < row.end_ns
            at_ns = row.end_ns

    def test_every_exchange_has_a_time_of_each_of_the_same_ranks_within_it(self, exchanged: Exchanged) -> None:
        assert len({len(row.rank_ns) for row in exchanged.rows}) == 1
        for row in exchanged.rows:
            assert len(row.rank_ns) >= 2
            assert all(0 < taken_ns <= row.end_ns - row.begin_ns for taken_ns in row.rank_ns)
