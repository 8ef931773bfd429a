"""Parallel training without its processes: what ranks say put together, and refusals."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pytest

from material import spec_of, training
from twinlens.errors import BadInput
from twinlens.executors.capabilities import Degrees
from twinlens.executors.torch.parallel import ranks
from twinlens.executors.torch.parallel.entry import degrees_of
from twinlens.executors.torch.parallel.exchange import covered, outside
from twinlens.executors.torch.parallel.options import ParallelOptions
from twinlens.executors.torch.parallel.over_ranks import (
    against_one_process,
    communication,
    evaluation_over,
    exchange,
    exchanged,
    facts_over,
    hidden_share,
    step_over,
)
from twinlens.executors.torch.parallel.ranks import refuse_too_few_gpus
from twinlens.measurement.facts.predicted_memory import predicted_memory
from twinlens.measurement.facts.predicted_work import predicted_bubble
from twinlens.measurement.preflight.refuse import refuse_what_cannot_run
from twinlens.record.codec import decode, encode
from twinlens.record.estimate import Estimate
from twinlens.record.executor.facts import Facts
from twinlens.record.executor.record import ExecutorRecord
from twinlens.record.finding import Finding
from twinlens.record.step import STEP_SCHEMA, Marks, Steps
from twinlens.reporting.wording.finding import sentence_of
from twinlens.spec.device import asked_device
from twinlens.spec.study import RunSpec
from twinlens.stats.finding.steadiness import bubble
from twinlens.system.log import owned_folder


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


def test_a_step_of_which_no_rank_has_a_loss_has_none() -> None:
    assert step_over([of_rank(0, 70, loss=None), of_rank(0, 70, loss=None)], 0, 8, 512).loss is None


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
            work={
                "counted_step_flop": Estimate(6.0, "flop", "counted", "measured", n=1),
                "resident_parameters": Estimate(held, "1", "counted", "measured", n=1),
            },
            ceilings={"matrix_flop_per_s": Estimate(rate, "flop/s", "rate", "measured", low=rate - 1, high=rate + 1)},
            memory={"weights_bytes": Estimate(held, "bytes", "held", "measured", n=1)},
        )

    both = facts_over([facts(10.0, 7.0), facts(20.0, 9.0)], split=1)
    assert both.ceilings["matrix_flop_per_s"].value == 30.0
    assert (both.ceilings["matrix_flop_per_s"].low, both.ceilings["matrix_flop_per_s"].high) == (28.0, 32.0)
    assert (both.work["counted_step_flop"].value, both.memory["weights_bytes"].value) == (12.0, 9.0)
    assert both.work["resident_parameters"].value == 7.0, "each rank has all of them, divided or not"
    staged = facts_over([facts(10.0, 7.0), facts(20.0, 9.0)], split=1, stages=2)
    assert (staged.work["counted_step_flop"].value, staged.work["resident_parameters"].value) == (12.0, 16.0)
    split = facts_over([facts(10.0, 7.0), facts(20.0, 9.0)], split=2)
    assert split.work["counted_step_flop"].value == 6.0, "a divided product is counted whole on each rank"


def test_how_much_of_an_exchange_is_hidden_is_clamped_and_not_told_within_its_noise() -> None:
    calm = [1.00, 1.01, 0.99, 1.00]
    assert hidden_share([1.25, 1.26, 1.24, 1.25], calm, [0.5] * 4)["share"] == pytest.approx(0.5)
    assert hidden_share([3.0, 3.01, 2.99, 3.0], calm, [0.5] * 4)["share"] == 0.0
    assert hidden_share([0.98, 0.99, 0.97, 0.98], calm, [0.5] * 4)["share"] == 1.0
    assert hidden_share([1.0, 2.0, 1.0, 2.0], calm, [0.5] * 4)["share"] is None
    timed = {"with_s": [1.0, 2.0, 1.0, 2.0], "without_s": calm, "flight_s": [0.5] * 4, "bytes": 4096}
    timed |= {"buckets": 0, "flights": []}
    found = exchange([{"exchange": timed}] * 2, on_processor=True)
    assert found is not None
    assert found.code == "exchange-not-resolved"
    assert "cannot be told" in sentence_of(found)
    assert exchange([{"exchange": {}}] * 2, on_processor=True) is None


def test_gradients_that_are_exchanged_once_a_step_weigh_what_the_model_does() -> None:
    def told(sent: float) -> dict[str, Any]:
        return {"compared": {"together": {"exchanged_bytes": sent, "gradients_bytes": 4096, "microbatches": 4}}}

    once, thrice = exchanged([told(4096.0)] * 2), exchanged([told(4096.0), told(3 * 4096.0)])
    assert once is not None
    assert thrice is not None
    assert (once.code, once.severity) == ("gradients-exchanged-once", "notes")
    assert sentence_of(once).startswith("A step of 4 microbatches exchanges 4.00 KiB, which is all gradients once")
    assert (thrice.code, thrice.severity) == ("gradients-exchanged-otherwise", "warns")
    assert "exchanges 12.0 KiB, and the gradients of this rank are 4.00 KiB" in sentence_of(thrice)
    assert exchanged([{"compared": {"together": {}}}, {"compared": {}}]) is None


def test_communication_is_exposed_where_nothing_computes_beside_it() -> None:
    # Under way 0 to 4 and 3 to 6; an operator runs 1 to 2 and 5 to 9: of the 6, 1 and 1 are beside one.
    flights, work = [(0.0, 4.0), (3.0, 6.0)], [(1.0, 2.0), (5.0, 9.0)]
    assert (covered(flights), outside(flights, work), outside([], work)) == (6.0, 4.0, 0.0)
    waits, works = (
        {"compared": {"together": {"profiled": {"collectives": {"all_reduce": 2}, "flight_s": 6.0, "exposed_s": long}}}}
        for long in (4.0, 1.5)
    )
    found = communication([works, waits], on_processor=False)
    assert found is not None
    assert (found.numbers["exposed_s"], found.numbers["share"]) == (4.0, pytest.approx(2 / 3))
    assert sentence_of(found) == (
        "In one profiled step 2 all-reduce are under way for 6.00 s, and for 4.00 s of it (67%) no operator runs "
        "beside them: communication that is exposed."
    )
    pipeline = {"compared": {"together": {"profiled": {}}}}
    assert communication([pipeline, pipeline], on_processor=True) is None
    assert communication([{"compared": {}}], on_processor=True) is None


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
    ("alone", "losses", "norm", "says"),
    [
        ([5.0, math.nan], [5.0, 4.0], 1.0, "in 1 of them a loss is absent or not finite"),
        ([5.0, math.nan], [5.0, math.nan], 1.0, "in 1 of them a loss is absent or not finite"),
        ([5.0, 4.0], [5.0], 1.0, "in 1 of them a loss is absent or not finite"),
        ([5.0, 4.0], [], 1.0, "in 2 of them a loss is absent or not finite"),
        ([5.0, 0.0], [5.0, 4.0], 1.0, "losses are 1.0e+00 apart"),
        ([5.0, 4.0], [5.0, 4.0], math.nan, "the first gradient's norm is absent or not finite"),
    ],
)
def test_a_loss_that_is_no_number_is_never_equal_and_the_sentence_says_so(
    alone: list[float], losses: list[float], norm: float, says: str
) -> None:
    told = {"together": {"losses": losses, "gradient_norm": norm}, "alone": {"losses": alone, "gradient_norm": 1.0}}
    found = against_one_process([{"compared": told}, {"compared": told | {"alone": {}}}], "fp32")
    assert found.code == "one-process-differs"
    assert says in sentence_of(decode(Finding, json.loads(json.dumps(encode(found)))))


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ({"batch": 9}, "2 ranks do not divide workload.global_batch 9"),
        ({"batch": 8, "microbatch": 8}, "point.microbatch 8 does not divide the 4 sequences"),
        ({"parallel": "tp", "ranks": 3}, "3 ranks do not divide the model's 4 heads"),
        ({"ranks": 0}, "executor.options.ranks of torch-parallel is a whole number from 1 to 1024, not 0"),
        ({"ranks": 2.5}, "not 2.5"),
        ({"patience_s": "long"}, "not 'long'"),
        ({"parallel": "zero"}, '"ddp" or "fsdp2" or "hsdp" or "tp" or "pp"'),
        (
            {"parallel": "hsdp", "ranks": 3},
            "replicate 2 do not divide 3 ranks; set executor.options.ranks to a multiple",
        ),
        ({"parallel": "fsdp2", "ranks": 4, "tensor": 3}, "executor.options.tensor 3 do not divide 4 ranks"),
        ({"parallel": "tp", "ranks": 4, "tensor": 2}, '"tp" splits every layer over all 4 ranks; for 2 take'),
        ({"tensor": 2}, 'not of "ddp"; take "hsdp" with executor.options.replicate'),
        ({"parallel": "fsdp2", "bucket_mib": 1.0}, 'bucket_mib of torch-parallel is of "ddp", and not of "fsdp2"'),
        ({"parallel": "fsdp2", "reduce_precision": "bf16"}, "is of training in bf16, and the precision is fp32"),
        ({"parallel": "pp", "ranks": 4}, "4 stages do not divide the model's 2 layers"),
        ({"parallel": "pp", "schedule": "interleaved"}, "4 stages do not divide the model's 2 layers"),
        ({"parallel": "pp", "microbatch": 8}, "1 microbatches do not fill 2 stages of a pipeline"),
        ({"parallel": "pp", "microbatch": 3, "batch": 9, "schedule": "interleaved"}, "2 ranks do not divide 3 microb"),
        (
            {"parallel": "pp", "ranks": 4, "tensor": 2},
            'take "hsdp" (replicate × shard × tensor) or "pp" alone, or read',
        ),
        ({"parallel": "pp", "ranks": 4, "replicate": 4}, "a pipeline of split or copied stages is not measured here"),
        ({"parallel": "pp", "ranks": 2, "replicate": 2}, "a pipeline of split or copied stages is not measured here"),
        ({"parallel": "ddp", "ranks": 2, "replicate": 2}, 'replicate of torch-parallel is of "hsdp", and not of "ddp"'),
        ({"rank": 2}, "no option 'rank'"),
        ({"numa": "node"}, "keeps each rank near its GPU, and these ranks have none"),
        ({"numa": "node", "on": "ray://local"}, "is what torchrun does, which starts ranks on this machine alone"),
        ({"on": "ray://head"}, "ranks run here or on Ray: ray://HOST:PORT or ray://local, not 'ray://head'"),
    ],
)
def test_a_world_that_divides_nothing_is_refused_before_anything_starts(asked: dict[str, Any], sentence: str) -> None:
    with pytest.raises(BadInput) as refused:
        refuse_what_cannot_run(spec(**asked))
    assert sentence in str(refused.value)


def test_one_gpu_has_no_link_and_the_refusal_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranks, "_gpus", lambda asked: 1)
    with pytest.raises(BadInput, match="and one is seen, which has no link to another; set fewer ranks, or the device"):
        refuse_too_few_gpus(asked_device("auto"), 2)


@pytest.mark.parametrize("kind", ["torch-parallel", "torch-deepspeed"])
def test_what_ranks_do_not_train_is_refused_with_what_to_take_instead(kind: str) -> None:
    with pytest.raises(BadInput, match="take bf16, or one process of torch"):
        refuse_what_cannot_run(spec_of(training(kind, point={"precision": "fp16"})))
    with pytest.raises(BadInput, match=r"workload\.method is 'lora'; take executor\.kind = \"torch\""):
        refuse_what_cannot_run(spec_of(training(kind, method="lora", adapter={"r": 4})))


def test_one_gpu_that_is_named_is_not_taken_for_the_first_of_several() -> None:
    with pytest.raises(BadInput, match=r"4 ranks need a GPU each, and executor.device names one \(cuda:4\)") as named:
        refuse_too_few_gpus(asked_device("cuda:4"), 4)
    assert named.value.code == "TL208"


def test_degrees_and_the_memory_that_theory_predicts_for_a_rank() -> None:
    def degrees(asked: RunSpec) -> Degrees:
        assert degrees_of(asked).compared == asked.model, "tiny is compared whole"
        return replace(degrees_of(asked), compared=None)

    assert degrees(spec()) == Degrees(data=2, copies=2, microbatch=4)
    assert degrees(spec(parallel="fsdp2", ranks=4)) == Degrees(data=4, zero=3, microbatch=2)
    assert degrees(spec(parallel="tp")) == Degrees(tensor=2, microbatch=8)
    assert degrees(spec(parallel="hsdp", ranks=8, tensor=2, batch=16, microbatch=2)) == Degrees(
        data=4, tensor=2, copies=2, zero=3, microbatch=2, microbatches=2
    )
    assert degrees(spec(parallel="pp")) == Degrees(pipeline=2, microbatch=1, microbatches=8)
    whole = predicted_memory(spec())
    sharing = {1: {"ranks": 2}, 2: {"parallel": "fsdp2"}, 4: {"parallel": "fsdp2", "tensor": 2, "ranks": 4}}
    kept = "predicted_activations_bytes"
    for parts, options in sharing.items():
        for name, estimate in predicted_memory(spec(**options)).items():
            assert name == kept or estimate.value == pytest.approx((whole[name].value or 0) / parts), (name, options)
    copied = predicted_memory(spec(parallel="hsdp", ranks=4, microbatch=2))
    assert copied == predicted_memory(spec(parallel="fsdp2", microbatch=2)), "each copy is sharded over two"
    half = predicted_memory(spec(microbatch=2))[kept].value
    assert half == pytest.approx((whole[kept].value or 0) / 2)
    for unknown in (spec(parallel="tp"), spec(attention="eager")):
        assert predicted_memory(unknown)[kept].value is None
    assert predicted_memory(spec_of(training("torch"))) == {}


@pytest.mark.parametrize(
    ("options", "mesh"),
    [
        ({"parallel": "ddp"}, {"replicate": 2}),
        ({"parallel": "tp"}, {"tensor": 2}),
        ({"parallel": "pp"}, {"pipeline": 2}),
        ({"parallel": "fsdp2", "ranks": 1}, {"shard": 1}),
        ({"parallel": "fsdp2", "ranks": 6, "tensor": 2}, {"shard": 3, "tensor": 2}),
        ({"parallel": "hsdp", "ranks": 12, "tensor": 2}, {"replicate": 2, "shard": 3, "tensor": 2}),
        ({"parallel": "hsdp", "ranks": 4, "tensor": 2}, {"replicate": 2, "shard": 1, "tensor": 2}),
    ],
)
def test_options_name_the_axes_of_a_mesh(options: dict[str, Any], mesh: dict[str, int]) -> None:
    asked = ParallelOptions.of(options)
    assert asked.mesh == mesh
    assert list(asked.mesh) == list(mesh), "ranks that split a layer are neighbours"
    assert asked.data * asked.split * asked.stages == asked.ranks


def test_the_idle_share_of_a_pipeline_is_that_of_its_bubble_where_nothing_else_waits() -> None:
    # Two stages, two microbatches, forward 10 and backward 20: the schedule takes 90, of which each computes 60.
    ranks = [of_rank(0, 110, forward_ns=20, backward_ns=40, optimize_ns=10, communicate_ns=None)] * 2
    steps = [step_over(ranks, -step * 110, 8, 512) for step in range(4)]
    rows = [{name: getattr(row, name) for name in STEP_SCHEMA.names} for row in steps]
    table = pa.Table.from_pylist(rows, schema=STEP_SCHEMA)
    predicted = predicted_bubble(spec(parallel="pp", microbatch=4))["predicted_bubble_share"]
    assert predicted.value == pytest.approx(1 / 3)
    found = bubble(table, predicted, 0.0, 1.0, 2)
    assert found is not None
    assert found.numbers["idle"] == pytest.approx(1 / 3)
    assert found.numbers["stages"] == 2
    assert "compute nothing for 33% of its schedule" in sentence_of(found)
    assert "2 microbatches is 33% by theory" in sentence_of(found)
    assert bubble(table, predicted, 2.0, 3.0, 2) is None, "no step in the window"
    interleaved = spec(parallel="pp", model="small", schedule="interleaved", microbatch=2)
    assert predicted_bubble(interleaved)["predicted_bubble_share"].value == pytest.approx(1 / 9)
    assert predicted_bubble(spec()) == {}


def test_a_folder_of_ranks_whose_owner_is_dead_is_removed_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    mine, other = owned_folder("ranks"), owned_folder("ranks")
    dead, foreign = tmp_path / "twinlens-ranks-dead", tmp_path / "twinlens-ranks-foreign"
    for folder in (dead, foreign):
        folder.mkdir()
    ended = subprocess.Popen([sys.executable, "-c", ""])
    born_s = psutil.Process(ended.pid).create_time()
    ended.wait()
    (dead / "owner").write_text(f"{ended.pid} {born_s!r}")
    (foreign / "owner").write_text("{")
    new = owned_folder("ranks")
    left = {each.name for each in tmp_path.iterdir()}
    assert left == {mine.name, other.name, new.name, foreign.name}


def test_naming_the_executor_imports_no_torch() -> None:
    code = (
        "import sys; from twinlens.executors.registry import trainer; trainer('torch-parallel');"
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], env=dict(os.environ)).returncode == 0


def test_ranks_with_other_clocks_are_timed_by_rank_0_and_keep_their_phases() -> None:
    row = step_over([of_rank(1000, 1070), of_rank(9_000, 9_080, backward_ns=37)], 900, 8, 512, one_clock=False)
    assert (row.begin_ns, row.end_ns, row.data_ns) == (100, 170, 10)
    assert (row.rank_begin_ns, row.rank_end_ns, row.rank_backward_ns) == (None, None, (30, 37))
    looked = evaluation_over([of_rank(1000, 1070), of_rank(5, 6)], 900, 8, 512, one_clock=False)
    assert (looked.begin_ns, looked.end_ns) == (100, 170)


def test_saves_of_ranks_on_a_cluster_are_refused() -> None:
    data = training("torch-parallel", options={"on": "ray://local"}, global_batch=8, checkpoint={"every_steps": 5})
    with pytest.raises(BadInput, match="are of ranks on this machine; leave them out, or --on"):
        degrees_of(spec_of(data))
