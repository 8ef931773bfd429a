"""Parallel training: its capabilities, and how batch, heads and layers are divided over ranks."""

from __future__ import annotations

from shutil import which
from typing import Literal

from twinlens.errors import BadInput
from twinlens.executors.capabilities import Capabilities, Degrees, Executor, named
from twinlens.executors.refuse import is_installed
from twinlens.executors.torch.entry import LEAST_GPU
from twinlens.executors.torch.parallel.options import OPTIONS, PRECISIONS, SHARDED, WHY_NOT, ParallelOptions
from twinlens.spec.model.any_model import AnyModel
from twinlens.spec.model.shape import DecoderShape
from twinlens.spec.model.twin import shrunken, weights_of_products
from twinlens.spec.study import RunSpec
from twinlens.spec.workload.workload import TrainingWorkload

# The degrees of a run, and refusals where the ranks do not divide it.

INTERLEAVED = 2
"""Stages of each rank under the interleaved schedule."""


NO_GPU_TO_BE_NEAR = (
    'executor.options.numa = "node" keeps each rank near its GPU, and these ranks have none; leave it out, or set '
    "executor.device to cuda"
)


def degrees_of(spec: RunSpec) -> Degrees:
    """The degrees of a run. Raises BadInput (TL202, TL207) where the ranks do not divide batch, heads or layers."""
    options = ParallelOptions.of(spec.executor.options)
    assert isinstance(spec.workload, TrainingWorkload)
    microbatch = microbatch_of(spec, options)
    shape = spec.model.shape
    if isinstance(shape, DecoderShape):
        _refuse_undivided_heads(shape, options.split)
        _refuse_undivided_layers(shape, options)
    _refuse_reduction(spec, options)
    if options.numa != "none" and spec.device.kind == "cpu":
        raise BadInput(NO_GPU_TO_BE_NEAR, code="TL207")
    _refuse_saves_elsewhere(spec, options)
    zero: Literal[0, 3] = 3 if options.parallel in SHARDED else 0  # not resharded, it holds whole weights for longer
    return Degrees(
        data=options.data,
        tensor=options.split,
        pipeline=options.stages,
        copies=options.copies,
        zero=zero,
        microbatch=microbatch,
        microbatches=spec.workload.global_batch // (microbatch * options.data),
        stages_each=stages_each(options),
        compared=compared_model(spec, options.stages * stages_each(options)) if options.compared_steps else None,
    )


def stages_each(options: ParallelOptions) -> int:
    """Stages of the pipeline that each rank has."""
    return INTERLEAVED if options.schedule == "interleaved" else 1


def microbatch_of(spec: RunSpec, options: ParallelOptions) -> int:
    """Sequences of one forward pass of one rank: all that it has, and one in a pipeline, unless asked otherwise.

    Raises BadInput (TL202) where the batch cannot be divided so.
    """
    assert isinstance(spec.workload, TrainingWorkload)
    batch, ranks = spec.workload.global_batch, options.data
    if batch % ranks:
        raise BadInput(
            f"{ranks} ranks do not divide workload.global_batch {batch}; set executor.options.ranks or the batch so "
            "that they do",
            code="TL202",
        )
    share = batch // ranks
    asked = spec.point.microbatch or (1 if options.parallel == "pp" else share)
    if share % asked:
        raise BadInput(
            f"point.microbatch {asked} does not divide the {share} sequences that each of {ranks} ranks has of "
            f"workload.global_batch {batch}",
            code="TL202",
        )
    if options.parallel == "pp":
        _refuse_idle_stages(share // asked, options)
    return asked


def _refuse_idle_stages(microbatches: int, options: ParallelOptions) -> None:
    stages = options.ranks
    if microbatches < stages:
        raise BadInput(
            f"{microbatches} microbatches do not fill {stages} stages of a pipeline; lower point.microbatch, or raise "
            f"workload.global_batch, for at least {stages}",
            code="TL202",
        )
    if options.schedule == "interleaved" and microbatches % stages:
        raise BadInput(
            f"{stages} ranks do not divide {microbatches} microbatches, as the interleaved schedule needs; change "
            "point.microbatch",
            code="TL202",
        )


def _refuse_undivided_heads(shape: DecoderShape, ranks: int) -> None:
    divided = {"heads": shape.heads, "KV heads": shape.kv_heads, "intermediate width": shape.intermediate}
    for what, amount in divided.items():
        if amount % ranks:
            raise BadInput(
                f"{ranks} ranks do not divide the model's {amount} {what}, as tensor parallelism needs; "
                "set executor.options.ranks to a divisor",
                code="TL202",
            )


def _refuse_undivided_layers(shape: DecoderShape, options: ParallelOptions) -> None:
    if options.parallel != "pp":
        return
    stages = options.ranks * stages_each(options)
    if shape.layers % stages:
        raise BadInput(
            f"{stages} stages do not divide the model's {shape.layers} layers, as a pipeline needs; set "
            "executor.options.ranks to a divisor",
            code="TL202",
        )
    if shape.tied_embeddings and options.ranks > 1:
        raise BadInput(
            "this model's output head is its token table, and a pipeline has them on different ranks; take "
            '"fsdp2" as executor.options.parallel',
            code="TL202",
        )


def _refuse_saves_elsewhere(spec: RunSpec, options: ParallelOptions) -> None:
    """Saves lie in a folder that all ranks share, and a rank is killed by its number on this machine."""
    assert isinstance(spec.workload, TrainingWorkload)
    if options.on and (spec.workload.checkpoint or spec.protocol.kill):
        raise BadInput(
            "workload.checkpoint and protocol.kill are of ranks on this machine; leave them out, or --on", code="TL202"
        )


def _refuse_reduction(spec: RunSpec, options: ParallelOptions) -> None:
    if options.reduce_precision != "fp32" and spec.point.precision != "bf16":
        raise BadInput(
            f"executor.options.reduce_precision is of training in bf16, and the precision is {spec.point.precision}; "
            "leave it out",
            code="TL207",
        )


_STATE_BYTES = 16
"""Of a parameter in fp32 with its gradient and two moments."""
_MOST_WHOLE_BYTES = 8 * 2**30


def compared_model(spec: RunSpec, stages: int = 1) -> AnyModel:
    """The whole model where one process holds it in 8 GiB, which half a billion parameters take; else the twin."""
    model = spec.model
    if not isinstance(model.shape, DecoderShape):
        return model
    if _STATE_BYTES * weights_of_products(model.shape) <= _MOST_WHOLE_BYTES:
        return model
    return shrunken(model, stages) or model


def with_model(spec: RunSpec, model: AnyModel) -> RunSpec:
    """The spec with another model in the place of the one that its workload names."""
    copied = spec.model_copy()
    copied.__dict__["model"] = model  # which was looked up once, and is kept there
    return copied


def twin_numbers(spec: RunSpec, model: AnyModel) -> dict[str, int]:
    """Layers of the twin and of the run's own model; empty where they are one."""
    few, many = model.shape, spec.model.shape
    if model is spec.model or not isinstance(few, DecoderShape) or not isinstance(many, DecoderShape):
        return {}
    return {"twin_layers": few.layers, "layers": many.layers}


_PACKAGES = ("torch",)


def _refuse_not_installed(spec: RunSpec) -> None:
    if not is_installed(_PACKAGES):
        raise BadInput("torch-parallel is not installed: pip install 'twinlens[torch]'", code="TL207")
    if spec.executor.options.get("numa") == "node" and which("numactl") is None:
        raise BadInput(
            'executor.options.numa = "node" takes numactl, which is not installed here: install it with the system\'s '
            "packages, or leave the option out",
            code="TL207",
        )


EXECUTOR = Executor(
    Capabilities(
        families=("decoder",),
        precisions=PRECISIONS,
        why_not=WHY_NOT,
        least_gpu=LEAST_GPU,
        settings=("device", "threads"),
        options=OPTIONS,
        computes_with="torch",
        packages=_PACKAGES,
        is_sized_by_theory=True,
        saves_state=True,
        restarts_ranks=True,
    ),
    trainer=named("twinlens.executors.torch.parallel.trainer:ParallelTrainer"),
    degrees=degrees_of,
    collectives=named("twinlens.executors.torch.parallel.exchanger:probe_collectives"),
    refuse_not_installed=_refuse_not_installed,
)
