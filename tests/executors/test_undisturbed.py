"""What a client does before it plays, so that nothing of its own process delays a request."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator

import pytest
from cheat_server import Server
from hostile_server import hostile

from material import inference, quiet, spec_of
from twinlens.executors.openai.executor import OpenAIServer
from twinlens.measurement.compliance.run import ResponseSampler, run_compliance_tests
from twinlens.network import client
from twinlens.network.client import undisturbed
from twinlens.schedule.build import planned_load


@pytest.fixture
def nothing_frozen(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The heap of a process that froze nothing, as the suite does with its collected tests."""
    monkeypatch.setattr(client, "gc", gc)
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


def test_questions_that_follow_a_load_look_for_garbage_once_and_not_before_each(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked: list[bool] = []
    monkeypatch.setattr(client.gc, "collect", lambda: looked.append(client._calm[0]))
    with hostile(Server()) as server:
        asked = inference(
            "openai-http", options={"url": server.url, "probe": False}, arrival={"kind": "closed"},
            point={"concurrency": 1}, protocol={"duration_s": 0.001, "min_rows": 2},
        )  # fmt: skip
        executor, sampler, spec = OpenAIServer(), ResponseSampler(1), spec_of(asked)
        executor.open(spec, quiet)
        executor.network_client.on_response(sampler)
        executor.network_client.play(planned_load(spec).schedule, lambda row: None)
        assert looked == [True], "before the load"
        run_compliance_tests(executor.network_client, spec, sampler)
        executor.close()
    assert looked == [True, True]
