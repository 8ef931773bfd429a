"""What a client does before it plays, so that nothing of its own process delays a request."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator

import pytest

from twinlens.network.client import undisturbed


@pytest.fixture
def nothing_frozen() -> Iterator[None]:
    """The heap of a process that froze nothing, as the suite does with its collected tests."""
    gc.unfreeze()
    yield
    gc.freeze()


@pytest.mark.usefixtures("nothing_frozen")
def test_a_load_of_many_slices_collects_garbage_before_the_first_only() -> None:
    switch_s, threshold = sys.getswitchinterval(), gc.get_threshold()
    with undisturbed():
        before = gc.get_stats()[2]["collections"]
        for _ in range(3):
            with undisturbed():
                pass
            assert gc.get_freeze_count() > 0
        assert gc.get_stats()[2]["collections"] == before
        assert sys.getswitchinterval() < switch_s
    assert gc.get_freeze_count() == 0
    assert (sys.getswitchinterval(), gc.get_threshold()) == (switch_s, threshold)


def test_what_the_caller_froze_stays_frozen(nothing_frozen: None) -> None:
    gc.freeze()
    frozen = gc.get_freeze_count()
    with undisturbed():
        assert gc.get_freeze_count() <= frozen
    assert 0 < gc.get_freeze_count() <= frozen
