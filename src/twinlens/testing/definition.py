"""Tests that run nothing: what an executor says of itself, what is refused, how it closes."""

from __future__ import annotations

from typing import Any

import pytest

from twinlens.errors import BadInput
from twinlens.executors.protocol import Exchanger, Server, Trainer
from twinlens.executors.refuse import refuse_unsupported
from twinlens.executors.registry import exchanger, server, trainer
from twinlens.spec.precision import PRECISIONS, Lens
from twinlens.testing.case import Case


def quiet(phrase: str) -> None:
    """Where an executor's words to people go."""


def new(case: Case, lens: Lens) -> Trainer | Server | Exchanger:
    """One that was not opened yet."""
    if lens == "collective":
        return exchanger(case.kind)
    return trainer(case.kind) if lens == "training" else server(case.kind)


class Definition:
    """Tests of one `case`."""

    case: Case

    def pytest_generate_tests(self, metafunc: Any) -> None:
        if "lens" in metafunc.fixturenames:
            metafunc.parametrize("lens", self.case.executor.lenses)

    def test_it_has_a_lens_and_says_what_it_takes(self) -> None:
        can = self.case.can
        assert self.case.executor.lenses, "it makes no trainers, servers or exchangers"
        assert can.families or self.case.executor.lenses == ("collective",), "it takes no model"
        assert set(can.precisions or ()) <= set(PRECISIONS)
        assert can.arrivals or "inference" not in self.case.executor.lenses
        for name, option in can.options.items():
            assert not option.choices or option.default in option.choices, name

    def test_it_can_be_closed_though_it_was_never_opened(self, lens: Lens) -> None:
        new(self.case, lens).close()

    def test_an_unknown_option_is_refused_by_its_name(self, lens: Lens) -> None:
        with pytest.raises(BadInput, match="no-such-option") as refused:
            refuse_unsupported(self.case.spec(lens, next(iter(self.case.models()), ""), {"no-such-option": 1}))
        assert "\n" not in str(refused.value)
