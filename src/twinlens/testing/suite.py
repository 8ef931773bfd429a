"""The whole suite for one executor, as a class that pytest collects."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from twinlens.testing.case import Case, Options
from twinlens.testing.definition import Definition
from twinlens.testing.exchanging import Exchanging
from twinlens.testing.serving import Answering, Serving, UnderLoad
from twinlens.testing.training import Training


def conformance(
    kind: str, options: Options | None = None, *, executor: Mapping[str, Any] | None = None, starts: bool = True
) -> type:
    """Every test of an installed executor's lenses, as a class; give it a name that begins with "Test".

    `options`: `[executor.options]`, or a function of lens and model that gives them. `executor`: `device` and
    `threads`, where it reads them. `starts`: False for what cannot be started here: then only what it says of itself is
    tested.
    Raises BadInput (TL207) where no such executor is installed.
    """
    case = Case(kind, options or {}, executor or {})
    parts: list[type] = [Definition]
    if starts and "training" in case.executor.lenses:
        parts.append(Training)
    if starts and "inference" in case.executor.lenses:
        parts.append(_serving_of(case))
    if starts and "collective" in case.executor.lenses:
        parts.append(Exchanging)
    return type("Conformance", tuple(parts), {"case": case, "pytest_generate_tests": _all_of(parts)})


def _serving_of(case: Case) -> type:
    if case.can.runs == "recorded":
        return Serving
    return Answering if case.can.arrivals == ("lockstep",) else UnderLoad


def _all_of(parts: list[type]) -> Any:
    """Each part names its own parameters; a class has one hook for all."""

    def pytest_generate_tests(self: Any, metafunc: Any) -> None:
        for part in parts:
            part.pytest_generate_tests(self, metafunc)  # type: ignore[attr-defined]

    return pytest_generate_tests
