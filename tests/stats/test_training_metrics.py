"""The training lens on rows written by hand."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pyarrow as pa
import pytest

from twinlens.record.estimate import Estimate
from twinlens.record.executor.facts import Facts
from twinlens.record.executor.record import ExecutorRecord
from twinlens.record.step import STEP_SCHEMA, Marks, Steps
from twinlens.spec.workload.workload import LossTarget, TrainingWorkload
from twinlens.stats.metrics.training import divergence, training_metrics, training_steadiness

WORKLOAD = TrainingWorkload(kind="training", model="tiny", global_batch=4, seq_len=32)
MS = 1_000_000


def steps_of(rows: list[Marks]) -> Steps:
    plain = [{field.name: getattr(row, field.name) for field in fields(row)} for row in rows]
    return Steps.from_table(pa.Table.from_pylist(plain, schema=STEP_SCHEMA))


def rows(
    count: int, *, begin_ms: int = 0, gap_ms: int = 0, took_ms: int = 100, tokens: int = 128, **more: Any
) -> list[Marks]:
    """Steps of 100 ms: 10 data, 30 forward, 40 backward, 10 optimize, and 10 nobody accounts for."""
    made = []
    for number in range(count):
        begin = (begin_ms + number * (took_ms + gap_ms)) * MS
        phases = {"data_ns": 10 * MS, "forward_ns": 30 * MS, "backward_ns": 40 * MS, "optimize_ns": 10 * MS}
        made.append(Marks(begin, begin + took_ms * MS, 4, tokens, 2.0, **(phases | more)))
    return made


def found(made: list[Marks], facts: Facts | None = None, workload: TrainingWorkload = WORKLOAD) -> dict[str, Estimate]:
    steps = steps_of(made)
    only, steadiness = training_steadiness(steps)
    return training_metrics(steps, only, steadiness, workload, facts)


def test_rates_quantiles_and_shares_by_hand() -> None:
    metrics = found(rows(200))
    value = {name: estimate.value for name, estimate in metrics.items()}
    assert value["training_tokens_per_s"] == pytest.approx(1280)
    assert value["step_s_p50"] == value["step_s_p90"] == pytest.approx(0.1)
    assert value["step_s_p99"] is None, "two hundred rows cannot bound it"
    shares = {name: share for name, share in value.items() if name.endswith("_share")}
    assert shares == {
        "data_share": pytest.approx(0.1),
        "forward_share": pytest.approx(0.3),
        "backward_share": pytest.approx(0.4),
        "optimize_share": pytest.approx(0.1),
        "unattributed_share": pytest.approx(0.1),
    }, "communication does not exist here and is absent, not 0"
    assert value["retention"] == pytest.approx(1)
    assert value["final_loss"] == 2.0


def test_phases_and_what_no_phase_accounts_for_add_up_however_steps_differ() -> None:
    """Phases were means of ratios and the rest a ratio of sums: they did not add up where steps differ in length."""
    uneven = []
    for i in range(0, 40_400, 202):
        uneven += rows(1, begin_ms=i) + rows(1, begin_ms=i + 100, took_ms=102, forward_ns=12 * MS)
    shares = {name: one.value for name, one in found(uneven).items() if name.endswith("_share")}
    assert sum(shares.values()) == pytest.approx(1, abs=1e-9)
    assert shares["forward_share"] == pytest.approx((30 + 12) / 202)


def test_phases_that_overlap_are_said_and_not_cut_at_nought() -> None:
    metrics = found(rows(200, forward_ns=60 * MS))
    assert metrics["unattributed_share"].value is None
    assert "the phases overlap: together they are 120 % of step time" in metrics["unattributed_share"].reason


def test_time_between_steps_belongs_to_the_step_after() -> None:
    metrics = found(rows(200, gap_ms=100))
    assert metrics["step_s_p50"].value == pytest.approx(0.2)
    assert metrics["training_tokens_per_s"].value == pytest.approx(640, rel=0.01)


def test_images_are_counted_where_there_are_no_tokens() -> None:
    metrics = found(rows(200, tokens=0))
    assert metrics["training_images_per_s"].value == pytest.approx(40)
    assert "training_tokens_per_s" not in metrics


def looked(at_ms: int, loss: float) -> Marks:
    return Marks(at_ms * MS, (at_ms + 1000) * MS, 16, 512, loss, kind="evaluate")


def with_evaluations() -> list[Marks]:
    """100 steps, an evaluation of a second, 100 steps, another."""
    first, second = rows(100), rows(100, begin_ms=11_000)
    return [*first, looked(10_000, 2.5), *second, looked(21_000, 1.9)]


def test_an_evaluation_costs_no_training_time() -> None:
    metrics = found(with_evaluations())
    assert metrics["training_tokens_per_s"].value == pytest.approx(1280)
    assert metrics["step_s_p90"].value == pytest.approx(0.1)
    assert metrics["final_loss"].value == 1.9


def test_an_evaluation_costs_time_to_target_which_lies_between_two_looks() -> None:
    workload = WORKLOAD.model_copy(update={"until": LossTarget(loss_nats=2.0)})
    metrics = found(with_evaluations(), workload=workload)
    time, samples = metrics["time_to_target_s"], metrics["samples_to_target"]
    assert (time.low, time.value, time.high) == (11.0, 16.5, 22.0)
    assert (samples.low, samples.value, samples.high) == (400, 600, 800)


def test_a_target_that_was_missed_is_absent_with_the_best_loss() -> None:
    workload = WORKLOAD.model_copy(update={"until": LossTarget(loss_nats=1.0)})
    missed = found(with_evaluations(), workload=workload)["time_to_target_s"]
    assert missed.value is None
    assert "not reached (best 1.9" in (missed.reason or "")
    never = found(rows(50), workload=workload)["time_to_target_s"]
    assert "no evaluation" in (never.reason or "")


def test_a_gap_counts_from_the_entropy_rate_and_a_gap_without_one_is_no_target() -> None:
    workload = WORKLOAD.model_copy(update={"until": LossTarget(gap_nats=0.5)})
    facts = Facts(ExecutorRecord({}), entropy_rate_nats=1.5)
    metrics = found(with_evaluations(), facts, workload)
    assert metrics["loss_gap"].value == pytest.approx(0.4)
    assert metrics["time_to_target_s"].high == 22.0
    assert "time_to_target_s" not in found(with_evaluations(), None, workload)


def estimate(value: float, unit: str, origin: Any = "measured") -> Estimate:
    return Estimate(value, unit, "by hand", origin, n=1)


def test_mfu_counts_model_flop_and_hfu_what_was_executed() -> None:
    facts = Facts(
        ExecutorRecord({}),
        work={
            "step_flop": estimate(3e9, "flop", "modelled"),
            "counted_step_flop": estimate(4e9, "flop"),
            "parameters": estimate(1000, "count", "modelled"),
        },
        ceilings={
            "matrix_flop_per_s": estimate(100e9, "flop/s"),
            "datasheet_flop_per_s": estimate(300e9, "flop/s", "quoted"),
        },
        memory={
            "weights_bytes": estimate(4000, "bytes"),
            "gradients_bytes": estimate(4000, "bytes"),
            "optimizer_bytes": estimate(8000, "bytes"),
        },
    )
    value = {name: e.value for name, e in found(rows(200), facts).items()}
    assert value["flop_per_s"] == pytest.approx(30e9)
    assert value["mfu"] == pytest.approx(0.3)
    assert value["hfu"] == pytest.approx(0.4)
    assert value["mfu_datasheet"] == pytest.approx(0.1)
    assert value["bytes_per_parameter"] == 16
    assert "mfu_own_shapes" not in value, "that ceiling was not measured"


def test_no_rows_give_no_rates_and_no_error() -> None:
    metrics = found([])
    assert set(metrics) == {"final_loss"}
    assert metrics["final_loss"].value is None


def test_a_step_that_compiles_is_before_the_steady_part() -> None:
    first = rows(1, took_ms=5000, tag="compile")
    steps = steps_of([*first, *rows(200, begin_ms=5000)])
    _, steadiness = training_steadiness(steps)
    assert steadiness is not None
    assert (steadiness.label, steadiness.steady_begin) == ("warm-up", 1)


def with_loss(*losses: float | None) -> list[Marks]:
    return [replace(one, loss=loss) for one, loss in zip(rows(len(losses)), losses, strict=True)]


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
def test_a_loss_that_is_no_number_is_divergence_and_no_good_loss(bad: float) -> None:
    metrics = found(with_loss(*[2.0] * 37, bad, 1.0, 1.0, 1.0))
    assert metrics["final_loss"].value is None
    reason = "training diverged: the loss of 1 of 41 rows is not a number, from row 37 on"
    assert metrics["final_loss"].reason == reason
    assert divergence(steps_of(with_loss(2.0, bad, None))) == {"rows": 1, "of": 2, "first": 1}
    assert divergence(steps_of(with_loss(2.0, None))) is None
    assert found(with_loss(*[None] * 30))["final_loss"].reason == "no step recorded a loss"


def test_an_evaluation_that_is_no_number_is_no_traceback() -> None:
    workload = WORKLOAD.model_copy(update={"until": LossTarget(loss_nats=1.0)})
    lost = [replace(step, loss=float("nan")) if step.kind == "evaluate" else step for step in with_evaluations()]
    metrics = found(lost, workload=workload)
    assert "diverged" in (metrics["final_loss"].reason or "")
    assert "no held-out loss is a number" in (metrics["time_to_target_s"].reason or "")
