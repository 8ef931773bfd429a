"""Two ranks on a Ray cluster that is started on this machine: steps of theirs, and one that loses a rank."""

from __future__ import annotations

import os
import signal
import time
from typing import Any

import psutil
import pytest

from material import quiet, spec_of, training
from twinlens.errors import ExecutorFailed
from twinlens.executors.torch.parallel.trainer import ParallelTrainer
from twinlens.reporting.wording.finding import sentence_of
from twinlens.spec.study import RunSpec

pytestmark = [pytest.mark.ray, pytest.mark.slow, pytest.mark.alone, pytest.mark.torch]
pytest.importorskip("ray", reason="needs the ray extra")


def spec() -> RunSpec:
    options = {"on": "ray://local", "parallel": "ddp", "compared_steps": 2}
    point = {"microbatch": 2}
    data: dict[str, Any] = training(
        "torch-parallel", options=options, executor={"device": "cpu", "threads": 1}, global_batch=8, seq_len=64,
        point=point, protocol={"ceilings": False},
    )  # fmt: skip
    return spec_of(data)


def ranks_below_this_machine() -> dict[str, psutil.Process]:
    """The processes of ranks, by rank."""
    found = {}
    for process in psutil.process_iter(["cmdline"]):
        if "twinlens.executors.torch.parallel.worker" in (process.info["cmdline"] or []):
            environment = process.environ()
            if environment.get("TWINLENS_RANKS", "").startswith("tcp://"):
                found[environment["RANK"]] = process
    return found


def test_two_ranks_on_ray_train_as_one_process_and_a_killed_one_is_named() -> None:
    trainer = ParallelTrainer()
    try:
        facts = trainer.open(spec(), quiet)
        codes = [finding.code for finding in facts.findings]
        assert "one-process-equal" in codes
        assert all(sentence_of(finding) for finding in facts.findings)
        assert facts.executor.value("training.world_size") == 2
        first, second = trainer.step(), trainer.step()
        assert 0 <= first.begin_ns < first.end_ns <= second.begin_ns < second.end_ns
        assert second.rank_begin_ns is not None, "they are on this machine, whose clock all share"
        assert len(second.rank_begin_ns) == 2
        ranks = ranks_below_this_machine()
        assert sorted(ranks) == ["0", "1"]
        assert {each.pid for each in ranks.values()} <= set(trainer.first_pids), "their work is the run's own"
        assert [place["node"] for place in facts.executor.value("training.ranks")] == [0, 0]
        os.kill(ranks["1"].pid, signal.SIGKILL)
        with pytest.raises(ExecutorFailed) as lost:
            trainer.step()
        assert str(lost.value).startswith("rank 1 of 2 died while taking step 3")
        assert (lost.value.code, lost.value.exit_code) == ("TL307", 3)
    finally:
        trainer.close()
    until_s = time.monotonic() + 30
    while ranks_below_this_machine() and time.monotonic() < until_s:
        time.sleep(0.1)
    assert ranks_below_this_machine() == {}
