"""What all tests share: this folder is importable, and a test of a GPU says why it is skipped."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import cache, lru_cache, partial
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any

import pandas  # noqa: F401 - first: a verb called in this process would keep it from pyarrow, and from later tests
import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from twinlens.record.run import Run
    from twinlens.stats.summary.group import Summary

# The same examples every time, so that a change is judged by what it changed, and no deadline: a busy machine is no
# falsification. `pytest --hypothesis-profile=search` looks for new ones.
settings.register_profile("repeatable", derandomize=True, deadline=None, print_blob=True)
settings.register_profile("search", deadline=None, print_blob=True)
settings.load_profile("repeatable")

# Nine thousand collected tests are 1.5 million objects, and to walk over them takes a second: every served run does so
# several times, before it plays. None of them is garbage before the last test has ended.
gc.disable()


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    wanting = [item for item in items if item.get_closest_marker("gpu")]
    reason = _no_gpu() if wanting else None
    for item in wanting:
        if reason:
            item.add_marker(pytest.mark.skip(reason=reason))


def _no_gpu() -> str | None:
    try:
        import torch
    except ImportError:
        return "needs the torch extra"
    return None if torch.cuda.is_available() else "needs an NVIDIA GPU, and torch sees none here"


@pytest.fixture(scope="session", autouse=True)
def _published_runs_are_summarised_once() -> Iterator[None]:
    """Rows of published runs do not change, and some hundred tests read them: each is summarised once in a process.

    A run whose record was changed in memory, and a copy of a folder, are summarised as ever.
    """
    from benchmarks import published

    from twinlens.measurement import summary_file

    computed = summary_file.summarise
    kept: dict[Path, tuple[Run, Summary]] = {}

    def once(run: Run) -> Summary:
        folder = run.folder.resolve()
        is_unpacked = published._place.cache_info().currsize > 0
        if not is_unpacked or published.published().resolve() not in folder.parents:
            return computed(run)
        if folder not in kept or kept[folder][0] != run:
            kept[folder] = replace(run), computed(run)  # the copy holds no rows
        return kept[folder][1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(summary_file, "summarise", once)
        yield


@pytest.fixture(scope="session", autouse=True)
def _a_chart_is_drawn_once() -> Iterator[None]:
    """Reports of the same runs are written by many tests, and drawing their charts takes most of that time."""
    import vl_convert

    drawn = lru_cache(maxsize=500)(vl_convert.vegalite_to_svg)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(vl_convert, "vegalite_to_svg", drawn)
        yield


@pytest.fixture(scope="session", autouse=True)
def _this_machine_is_looked_at_briefly() -> Iterator[None]:
    """Some thousand runs are measured in a process, and each would wait 0.15 s for what others use of the processors,
    and each over HTTP 2 s for what its client can do. What these come to is tested by those who ask for it themselves.
    """
    from twinlens.measurement.client import calibrate
    from twinlens.measurement.drive import load
    from twinlens.measurement.machine import contention, host

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(host, "tenancy_facts", partial(contention.tenancy_facts, window_s=0.03))
        patch.setattr(load, "calibrate", cache(calibrate.calibrate))
        yield


@pytest.fixture(scope="session", autouse=True)
def _garbage_is_not_looked_for_before_every_load() -> Iterator[None]:
    """A client looks through all objects of its process before it plays: of a process that has collected thousands of
    tests and loaded torch that takes a tenth of a second, and some thousand loads are played. That it does so is tested
    in tests/executors/test_undisturbed.py.
    """
    from twinlens.network import client

    with pytest.MonkeyPatch.context() as patch:
        kept = {name: getattr(gc, name) for name in ("get_threshold", "set_threshold")}
        patch.setattr(client, "gc", SimpleNamespace(get_freeze_count=lambda: 1, collect=lambda: 0, **kept))
        yield


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Put a machine in pynvml's place: `machine(Board("GPU-a"), …)`."""
    from nvml_machine import Board, Machine

    def of(*boards: Board, **more: Any) -> Machine:
        made = Machine(*boards, **more)
        module = ModuleType("pynvml")
        for name in dir(made):
            if not name.startswith("__"):
                setattr(module, name, getattr(made, name))
        monkeypatch.setitem(sys.modules, "pynvml", module)
        return made

    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.delenv("CUDA_DEVICE_ORDER", raising=False)
    return of
