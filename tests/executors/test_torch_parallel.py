"""Parallel training without its processes: what ranks say put together, refusals, and sentences on a lost one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from material import spec_of, training
from twinlens.errors import BadInput
from twinlens.executors.capabilities import Degrees
from twinlens.executors.torch.parallel.findings import against_one_process, exchange, hidden_share
from twinlens.executors.torch.parallel.loss_of_rank import Lost, sentence_on
from twinlens.executors.torch.parallel.options import degrees_of
from twinlens.executors.torch.parallel.over_ranks import facts_over, step_over
from twinlens.measurement.facts.predicted_memory import predicted_memory
from twinlens.measurement.preflight.refuse import refuse_what_cannot_run
from twinlens.record.estimate import Estimate
from twinlens.record.executor.facts import Facts
from twinlens.record.executor.record import ExecutorRecord
from twinlens.record.step import STEP_SCHEMA, Marks, Steps
from twinlens.reporting.wording.finding import sentence_of
from twinlens.spec.study import RunSpec


def spec(batch: int = 8, microbatch: int | None = None, model: str = "tiny", **options: Any) -> RunSpec:
    point = {} if microbatch is None else {"microbatch": microbatch}
    study = training("torch-parallel", model, options=options, global_batch=batch, point=point)
    return spec_of(study)


def of_rank(begin: int, end: int, **phases: int | None) -> dict[str, Any]:
    usual = {"data_ns": 10, "forward_ns": 20, "backward_ns": 30, "communicate_ns": 5, "optimize_ns": 5}
    return {"begin_ns": begin, "end_ns": end, "loss": 2.0} | usual | phases


def test_a_step_is_from_the_latest_start_to_the_latest_end_and_keeps_the_phases_of_every_rank() -> None:
    row = step_over([of_rank(1000, 1070), of_rank(1003, 1080, backward_ns=37, loss=4)], 900, 8, 512)  # type: ignore[arg-type]
    assert (row.begin_ns, row.end_ns, row.samples, row.tokens, row.loss) == (103, 180, 8, 512, 3.0)
    assert (row.data_ns, row.forward_ns) == (7, 20), "what rank 0 did before the step began is none of it"
    assert (row.rank_begin_ns, row.rank_end_ns) == ((100, 103), (170, 180))
    assert (row.rank_data_ns, row.rank_backward_ns) == ((10, 10), (30, 37))
    spent = [row.data_ns, row.forward_ns, row.backward_ns, row.communicate_ns, row.optimize_ns]
    assert sum(each or 0 for each in spent) <= row.end_ns - row.begin_ns


def test_the_spread_of_a_step_is_of_work_without_waiting_and_absent_where_waiting_is_not_known() -> None:
    known = step_over([of_rank(0, 70), of_rank(0, 70, backward_ns=12, communicate_ns=23)], 0, 8, 512)
    unknown = step_over([of_rank(0, 70, communicate_ns=None), of_rank(0, 70, communicate_ns=None)], 0, 8, 512)
    plain = Marks(0, 70, 8, 512)
    rows = [{name: getattr(row, name) for name in STEP_SCHEMA.names} for row in (known, unknown, plain)]
    spread = Steps.from_table(pa.Table.from_pylist(rows, schema=STEP_SCHEMA)).spread_ns.tolist()
    assert spread[0] == 18
    assert all(each != each for each in spread[1:])


def test_rates_add_up_over_ranks_work_over_data_ranks_and_memory_is_that_of_the_fullest() -> None:
    def facts(rate: float, held: float) -> Facts:
        return Facts(
            ExecutorRecord({}),
            work={"counted_step_flop": Estimate(6.0, "flop", "counted", "measured", n=1)},
            ceilings={"matrix_flop_per_s": Estimate(rate, "flop/s", "rate", "measured", low=rate - 1, high=rate + 1)},
            memory={"weights_bytes": Estimate(held, "bytes", "held", "measured", n=1)},
        )

    both = facts_over([facts(10.0, 7.0), facts(20.0, 9.0)], data=2)
    assert both.ceilings["matrix_flop_per_s"].value == 30.0
    assert (both.ceilings["matrix_flop_per_s"].low, both.ceilings["matrix_flop_per_s"].high) == (28.0, 32.0)
    assert (both.work["counted_step_flop"].value, both.memory["weights_bytes"].value) == (12.0, 9.0)
    split = facts_over([facts(10.0, 7.0), facts(20.0, 9.0)], data=1)
    assert split.work["counted_step_flop"].value == 6.0, "a divided product is counted whole on each rank"


def test_how_much_of_an_exchange_is_hidden_is_clamped_and_not_told_within_its_noise() -> None:
    calm = [1.00, 1.01, 0.99, 1.00]
    assert hidden_share([1.25, 1.26, 1.24, 1.25], calm, [0.5] * 4)["share"] == pytest.approx(0.5)
    assert hidden_share([3.0, 3.01, 2.99, 3.0], calm, [0.5] * 4)["share"] == 0.0
    assert hidden_share([0.98, 0.99, 0.97, 0.98], calm, [0.5] * 4)["share"] == 1.0
    assert hidden_share([1.0, 2.0, 1.0, 2.0], calm, [0.5] * 4)["share"] is None
    timed = {"with_s": [1.0, 2.0, 1.0, 2.0], "without_s": calm, "flight_s": [0.5] * 4, "bytes": 4096, "buckets": 2}
    found = exchange([{"exchange": timed}] * 2, on_processor=True)
    assert found is not None
    assert found.code == "exchange-not-resolved"
    assert "cannot be told" in sentence_of(found)
    assert exchange([{"exchange": {}}] * 2, on_processor=True) is None


@pytest.mark.parametrize(
    ("losses", "norm", "code"),
    [
        ([5.0, 4.0], 1.0, "one-process-equal"),
        ([5.0, 4.1], 1.0, "one-process-differs"),
        ([5.0, 4.0], 2.0, "one-process-differs"),  # AdamW hides a gradient that was not divided by the ranks
    ],
)
def test_ranks_that_do_not_train_as_one_process_are_not_ranked(losses: list[float], norm: float, code: str) -> None:
    alone = {"losses": [5.0, 4.0], "gradient_norm": 1.0}
    first = {"compared": {"alone": alone, "together": {"losses": losses, "gradient_norm": norm}}}
    other = {"compared": {"alone": {}, "together": {"losses": losses, "gradient_norm": norm}}}
    found = against_one_process([first, other], "fp32")
    assert (found.code, found.severity) == (code, "notes" if code.endswith("equal") else "disqualifies")
    assert "one process" in sentence_of(found)
    assert against_one_process([{"compared": {}}], "fp32").severity == "disqualifies"


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ({"batch": 9}, "2 ranks do not divide workload.global_batch 9"),
        ({"batch": 8, "microbatch": 8}, "point.microbatch 8 does not divide the 4 sequences"),
        ({"parallel": "tp", "ranks": 3}, "3 ranks do not divide the model's 4 heads"),
        ({"ranks": 0}, "executor.options.ranks of torch-parallel is a whole number from 1 to 1024, not 0"),
        ({"ranks": 2.5}, "not 2.5"),
        ({"patience_s": "long"}, "not 'long'"),
        ({"parallel": "zero"}, '"ddp" or "fsdp2" or "tp"'),
        ({"rank": 2}, "no option 'rank'"),
    ],
)
def test_a_world_that_divides_nothing_is_refused_before_anything_starts(asked: dict[str, Any], sentence: str) -> None:
    with pytest.raises(BadInput) as refused:
        refuse_what_cannot_run(spec(**asked))
    assert sentence in str(refused.value)


def test_degrees_and_the_memory_that_theory_predicts_for_a_rank() -> None:
    assert degrees_of(spec()) == Degrees(data=2)
    assert degrees_of(spec(parallel="fsdp2", ranks=4)) == Degrees(data=4, zero=3)
    assert degrees_of(spec(parallel="tp")) == Degrees(tensor=2)
    whole, half = predicted_memory(spec()), predicted_memory(spec(parallel="fsdp2"))
    for name, estimate in whole.items():
        assert half[name].value == pytest.approx((estimate.value or 0) / 2), name
    assert predicted_memory(spec_of(training("torch"))) == {}


def test_the_rank_that_died_is_named_with_its_log_and_not_those_that_failed_after_it(tmp_path: Path) -> None:
    log = tmp_path / "id" / "attempt_0" / "1" / "stderr.log"
    log.parent.mkdir(parents=True)
    log.write_text("loading\nreading\nout of luck\n")
    (tmp_path / "torchrun.log").write_text("failed (exitcode: -9) local_rank: 1 (pid: 7) of binary: python\n")
    lost = Lost()
    lost.note_failed(0, "RuntimeError: Connection closed by peer")
    lost.note_died(1)
    sentence = sentence_on(lost, 2, [6, 7], "taking step 3", tmp_path)
    assert sentence == (
        "rank 1 of 2 died while taking step 3 (signal 9, SIGKILL); its log ends: loading | reading | out of luck"
    )
    alone = Lost()
    alone.note_failed(0, "RuntimeError: no")
    assert sentence_on(alone, 2, [6, 7], "opening", tmp_path) == "rank 0 of 2 failed while opening: RuntimeError: no"
    never = Lost()
    never.note_never_began([0, 1])
    (tmp_path / "torchrun.log").write_text("ModuleNotFoundError: No module named 'torch'\n")
    assert "No module named 'torch'" in sentence_on(never, 2, [], "starting", tmp_path)


def test_naming_the_executor_imports_no_torch() -> None:
    code = (
        "import sys; from twinlens.executors.registry import trainer; trainer('torch-parallel');"
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], env=dict(os.environ)).returncode == 0
