"""What a client does before it plays, so that nothing of its own process delays a request."""

from __future__ import annotations

import gc
import sys

from twinlens.executors.openai.undisturbed import undisturbed


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
