"""Parallel training in two real processes over gloo: one start for all ways to divide, and how one is lost."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from material import spec_of, training
from twinlens.errors import ExecutorFailed
from twinlens.executors.in_process.ceiling import slow_links
from twinlens.executors.torch.parallel.exchanger import KINDS
from twinlens.executors.torch.parallel.options import ParallelOptions
from twinlens.executors.torch.parallel.over_ranks import (
    against_one_process,
    communication,
    exchange,
    exchanged,
    facts_over,
    step_over,
)
from twinlens.executors.torch.parallel.ranks import Ranks
from twinlens.measurement.facts.predicted_memory import predicted_memory
from twinlens.measurement.facts.predicted_work import theory_of
from twinlens.measurement.session import run_here
from twinlens.record.codec import decode
from twinlens.record.executor.facts import Facts
from twinlens.record.store import create_run, read_run
from twinlens.spec.study import RunSpec
from twinlens.system.processes import is_alive

pytestmark = [pytest.mark.slow, pytest.mark.torch]


def spec(precision: str = "fp32", model: str = "tiny", **options: Any) -> RunSpec:
    point = {"microbatch": 2 if options["parallel"] != "pp" else 1, "precision": precision}
    return spec_of(training("torch-parallel", model, options=options, global_batch=8, seq_len=64, point=point))


@pytest.fixture(scope="module")
def ranks() -> Iterator[Ranks]:
    started = Ranks(2, 1, 180.0)
    yield started
    started.close()


@pytest.fixture(scope="module")
def four_ranks() -> Iterator[Ranks]:
    started = Ranks(4, 1, 180.0)
    yield started
    started.close()


def opened(ranks: Ranks, asked: RunSpec) -> tuple[list[dict[str, Any]], Facts]:
    told = ranks.ask({"order": "open", "spec": asked.to_dict()}, "opening")
    options = ParallelOptions.of(asked.executor.options)
    return told, facts_over([decode(Facts, each["facts"]) for each in told], options.split, options.stages)


def trained_as_one_does(ranks: Ranks, asked: RunSpec) -> list[dict[str, Any]]:
    """Opens it, and holds losses, memory, work and the first row to one process and to theory."""
    told, facts = opened(ranks, asked)
    assert against_one_process(told, asked.point.precision).code == "one-process-equal"
    for name, predicted in predicted_memory(asked).items():
        counted = facts.memory[name.removeprefix("predicted_")].value
        assert predicted.value is None or counted == pytest.approx(predicted.value, rel=0.05), name
    assert facts.work["resident_parameters"].value == theory_of(asked)["parameters"].value
    flop = theory_of(asked)["step_flop"].value
    assert facts.work["counted_step_flop"].value == pytest.approx(flop, rel=0.02)
    assert facts.executor.value("training.world_size") == len(told)
    assert {check.verdict for check in facts.precision} <= {"agrees", "unknown"}
    row = step_over(ranks.ask({"order": "step"}, "stepping"), 0, 8, 512)
    assert row.loss == pytest.approx(told[0]["compared"]["alone"]["losses"][0], rel=5e-3), (
        "rows begin where training does"
    )
    assert row.rank_end_ns is not None
    assert len(row.rank_end_ns) == len(told)
    parallel = asked.executor.options["parallel"]
    assert (row.communicate_ns is not None) == (parallel == "ddp")
    exposed = communication(told, on_processor=True)
    assert (exposed is None) == (parallel == "pp")
    assert exposed is None or 0 <= exposed.numbers["exposed_s"] <= exposed.numbers["flight_s"]
    return told


@pytest.mark.parametrize(
    ("model", "options"),
    [
        ("tiny", {"parallel": "hsdp", "replicate": 2}),
        ("tiny", {"parallel": "fsdp2", "tensor": 2}),
        ("tiny", {"parallel": "hsdp", "replicate": 2, "tensor": 2}),  # copies of a split model
        ("small", {"parallel": "pp"}),
    ],
)
def test_four_ranks_on_a_mesh_train_as_one_process_does(four_ranks: Ranks, model: str, options: dict[str, Any]) -> None:
    trained_as_one_does(four_ranks, spec("fp32", model, ranks=4, compared_steps=2, **options))


@pytest.mark.parametrize(
    ("parallel", "options", "precision", "model"),
    [
        ("ddp", {"bucket_mib": 1.0}, "fp32", "tiny"),
        ("fsdp2", {"reshard": "yes", "reduce_precision": "bf16"}, "bf16", "tiny"),
        ("fsdp2", {"reshard": "no"}, "fp32", "tiny"),
        ("tp", {}, "fp32", "tiny"),
        ("pp", {}, "bf16", "tiny"),
        ("pp", {"schedule": "gpipe"}, "fp32", "tiny"),
        ("pp", {"schedule": "interleaved"}, "fp32", "small"),
    ],
)
def test_two_ranks_train_as_one_process_does_and_hold_what_theory_says(
    ranks: Ranks, parallel: str, options: dict[str, Any], precision: str, model: str
) -> None:
    asked = spec(precision, model, parallel=parallel, **options)
    told = trained_as_one_does(ranks, asked)
    looked = ranks.ask({"order": "evaluate", "batches": 1}, "evaluating")
    assert [each["loss"] is None for each in looked] == [parallel == "pp", False], "the last stage alone has a loss"
    if parallel == "ddp":
        found = exchange(told, on_processor=True)
        assert found is not None
        parameters = predicted_memory(asked)["predicted_gradients_bytes"].value
        assert found.numbers["bytes"] == parameters, "all gradients once, after the last microbatch alone"
        assert found.numbers["buckets"] > 1
        flights = found.numbers["flights"]
        assert [index for index, *_ in flights] == list(range(len(flights)))
        assert sum(size for _, size, *_ in flights) == parameters
        assert all(0 < begin_s < end_s for *_, begin_s, end_s in flights)
        once = exchanged(told)
        assert once is not None
        assert (once.code, once.numbers["bytes"], once.numbers["microbatches"]) == (
            "gradients-exchanged-once",
            parameters,
            2,
        )


def test_ranks_listen_to_nobody_but_this_machine(ranks: Ranks) -> None:
    """torchrun's store over TCP listens to every interface, and asks nobody who it is."""
    assert ranks.ask({"order": "join", "device": "cpu", "patience_s": 180.0}, "joining") == ["gloo"] * 2
    first = psutil.Process(*ranks.first_pids)
    world = [first, *first.children(recursive=True)]
    heard = [each.laddr.ip for process in world for each in process.net_connections() if each.status == "LISTEN"]
    assert len(world) > 2
    assert set(heard) <= {"127.0.0.1", "::1", "::ffff:127.0.0.1"}


@pytest.mark.parametrize("parallel", ["ddp", "pp"])
def test_a_rank_that_stands_still_is_named_in_time_and_nothing_of_it_is_left(
    parallel: str, request: pytest.FixtureRequest
) -> None:
    """It ends the world, so it is the last test of each."""
    ranks = request.getfixturevalue("ranks" if parallel == "ddp" else "four_ranks")
    count = len(ranks.pids)
    opened(ranks, spec(model="small" if count == 4 else "tiny", parallel=parallel, ranks=count, compared_steps=0))
    ranks.patience_s = 3.0
    born = {pid: psutil.Process(pid).create_time() for pid in [*ranks.first_pids, *ranks.pids]}
    os.kill(ranks.pids[1], signal.SIGSTOP)
    with pytest.raises(ExecutorFailed) as lost:
        ranks.ask({"order": "step"}, "taking step 1")
    assert str(lost.value).startswith(f"rank 1 of {count} gave no answer in 3 s while taking step 1")
    assert (lost.value.code, lost.value.exit_code) == ("TL307", 3)
    ranks.close()
    assert not [pid for pid, born_s in born.items() if is_alive(pid, born_s)]


@pytest.mark.parametrize("parallel", ["ddp", "pp"])
def test_a_rank_that_is_killed_ends_the_run_its_rows_are_kept_and_no_process_is_left(
    parallel: str, tmp_path: Path
) -> None:
    asked = spec(parallel=parallel, compared_steps=0)
    asked = asked.model_copy(update={"protocol": asked.protocol.model_copy(update={"duration_s": 600.0})})
    folder = create_run(tmp_path, asked)
    born: dict[int, float] = {}
    before = set(psutil.Process().children(recursive=True))  # of other tests, in the same process

    def kill_second_rank() -> None:
        while not (folder / "steps.arrows").exists() or (folder / "steps.arrows").stat().st_size < 4000:
            time.sleep(0.1)
        below = [each for each in psutil.Process().children(recursive=True) if each not in before]
        born.update({each.pid: each.create_time() for each in below})
        next(each for each in below if each.environ().get("RANK") == "1").kill()

    killer = threading.Thread(target=kill_second_rank, daemon=True)
    killer.start()
    with pytest.raises(ExecutorFailed) as lost:
        run_here(folder, asked, lambda phrase, share, rows: None)
    killer.join(30)
    assert str(lost.value).startswith("rank 1 of 2 died while taking step ")
    assert (lost.value.code, lost.value.exit_code) == ("TL307", 3)
    run = read_run(folder)
    assert run.state == "failed"
    assert len(run.steps) > 0
    assert run.table.column("rank_end_ns").combine_chunks().value_lengths().to_pylist() == [2] * len(run.steps)
    assert len(born) >= 4, "the guard, torchrun and two ranks"
    assert not [pid for pid, born_s in born.items() if is_alive(pid, born_s)]


@pytest.mark.alone
def test_a_rank_that_is_slow_in_every_exchange_is_named() -> None:
    world = Ranks(3, 1, 180.0)
    try:
        assert world.ask({"order": "join", "device": "cpu", "patience_s": 180.0}, "joining") == ["gloo"] * 3
        order = {"order": "pair", "size_bytes": 2**16, "repeats": 7, "delays_s": {"1": 0.3}}
        pairs = {}
        for pair in ((0, 1), (0, 2), (1, 2)):
            told = world.ask(order | {"ranks": pair}, "timing pairs")
            pairs[pair] = [max(each) for each in zip(*(told[rank] for rank in pair), strict=True)]
        for kind in KINDS:
            told = world.ask(
                {"order": "collective", "kind": kind, "size_bytes": 4096, "repeats": 3, "together": 1}, "timing"
            )
            assert [len(seconds) for seconds in told] == [3, 3, 3], kind
    finally:
        world.close()
    assert [(each.code, each.subject) for each in slow_links(pairs, on_processor=True)] == [("slow-rank", "1")]
