"""Check that a run fits the memory of this machine before anything is allocated, and show the arithmetic."""

from __future__ import annotations

import math
from collections.abc import Sequence

import psutil

from twinlens.errors import BadInput
from twinlens.executors.capabilities import Degrees
from twinlens.executors.registry import capabilities, executor, launches
from twinlens.measurement.facts.predicted_memory import memory_of_rank
from twinlens.measurement.facts.predicted_work import asked_model
from twinlens.measurement.machine.nvidia import board_of
from twinlens.measurement.preflight.idle_gpu import uses_gpu
from twinlens.spec.model.any_model import AnyModel
from twinlens.spec.model.reference import ModelShape
from twinlens.spec.model.shape import DecoderShape
from twinlens.spec.point import FROM_LOG
from twinlens.spec.precision import AS_SERVED, BITS
from twinlens.spec.study import RunSpec
from twinlens.spec.workload.workload import InferenceWorkload, TrainingWorkload
from twinlens.system.nvml import open_gpus
from twinlens.theory.activation import Checkpointing
from twinlens.theory.adapter import tuned
from twinlens.theory.memory import inference_memory, layout_of, training_memory
from twinlens.theory.parameter import parameters
from twinlens.theory.sharding import ShardedMemory
from twinlens.units import BYTES, show

_SLACK_BYTES = 600 * 2**20  # interpreter, torch and its workspaces, measured on an idle worker


def needed(spec: RunSpec) -> tuple[float | None, str]:
    """Bytes a run needs at its peak, and the sum in words. Modelled: workspaces are a flat allowance.

    None, and why, for a model of a server's that theory does not know, and where no model runs.
    """
    if spec.lens == "collective":
        return None, "an exchange between ranks: not modelled, each rank has two buffers"
    if spec.executor.kind == FROM_LOG:
        return None, "what a trainer of your own takes is its own to say: not modelled"
    model = asked_model(spec)
    if model.shape is None:
        return None, f"serving {model.name}: not modelled, {model.why}"
    if spec.precision == AS_SERVED:
        return None, f"serving {model.name}: not modelled, {AS_SERVED.method}"
    return _modelled(spec, model, model.shape)


def _modelled(spec: RunSpec, ref: AnyModel, shape: ModelShape) -> tuple[float, str]:
    regime = spec.precision
    if isinstance(spec.workload, TrainingWorkload):
        microbatch = spec.point.microbatch or spec.workload.global_batch
        seq_len = spec.workload.seq_len if isinstance(shape, DecoderShape) else None
        kept: Checkpointing = "full" if spec.workload.checkpointing else "none"
        if (divided := _of_ranks(spec, ref, shape)) is not None:
            return divided
        if (tune := tuned(spec.workload, shape, regime)) is not None:
            first = 0.0 if ref.folder else 4.0 * parameters(shape).total  # random weights are drawn in fp32
            total = max(float(tune.memory(microbatch, spec.workload.seq_len, kept).total_bytes), first)
            words = f"{show(tune.frozen_bytes, BYTES)} of weights that stay and {tune.parameters:,} parameters trained"
            return total + _SLACK_BYTES, f"training an adapter of {ref.name}: {words} = {show(total, BYTES)}"
        modelled = training_memory(shape, layout_of(regime), microbatch, seq_len, kept)
        return modelled.total_bytes + _SLACK_BYTES, f"training {ref.name}: {modelled.arithmetic}"
    assert isinstance(spec.workload, InferenceWorkload)
    classes = regime.classes("inference")
    context = spec.workload.input_tokens.max + spec.workload.output_tokens.max
    served = inference_memory(
        shape, regime.weight_bits("inference", 4096), BITS[classes["kv"]] / 8, spec.point.batch, context
    )
    # Where there is room, weights are made in fp32 first, for fidelity to be compared with; else as narrow as they can.
    makes_it = regime.quantised and capabilities(spec.executor.kind).quantises  # a server loads what its folder holds
    made_in = 32.0 if regime.name == "int8-dynamic" else 16.0
    first = inference_memory(shape, made_in, 4.0, 1, 0).weights_bytes if makes_it else 0.0
    words = f"serving {ref.name}: {served.arithmetic}"
    if first > served.total_bytes:
        words += f", and {show(first, BYTES)} in {made_in:g} bits while it is made"
    return max(served.total_bytes, first) + _SLACK_BYTES, words


def _of_ranks(spec: RunSpec, ref: AnyModel, shape: ModelShape) -> tuple[float, str] | None:
    """All processes of parallel training, if they share this machine's memory; of several GPUs, the fullest one, which
    is that of rank 0."""
    held, divide = memory_of_rank(spec), executor(spec.executor.kind).degrees
    if held is None or divide is None:
        return None
    degrees = divide(spec)
    ranks = 1 if uses_gpu(spec.device) else degrees.ranks
    each = _peak(held, degrees) + degrees.buffers_bytes
    words = f"{ranks} × {show(each, BYTES)}" if ranks > 1 else show(each, BYTES)
    total, said = ranks * (each + _SLACK_BYTES), f"{words} by rank"
    if degrees.compared is not None:  # before the rows, when ranks hold their weights and neither gradients nor state
        beside = _compared(spec, degrees, degrees.compared, ranks)
        early = ranks * (float(held.weights_bytes) + _SLACK_BYTES) + beside
        if early > total:
            own = show(ranks * float(held.weights_bytes), BYTES)
            total, said = early, f"{own} of weights and {show(beside, BYTES)} to compare with one process"
    return total, f"training {ref.name}: {said}"


def _peak(held: ShardedMemory, degrees: Degrees) -> float:
    """Theory takes tensor parallelism with sequence parallelism, which none has here: norms and residuals are whole on
    every rank, 10 of the 34 bytes of each token and width (arXiv 2205.05198, table 2), and so are scores."""
    split = degrees.tensor
    rest = float(held.total_bytes - held.activations_bytes - held.logits_bytes)
    return rest + float(held.activations_bytes) * (10 * split + 24) / 34 + split * float(held.logits_bytes)


def _compared(spec: RunSpec, degrees: Degrees, model: AnyModel, ranks: int) -> float:
    """The model that one process trains by one rank's share of rows, and for a while another copy of each rank's
    weights; of a twin also what each rank holds of it."""
    assert isinstance(spec.workload, TrainingWorkload)
    assert model.shape is not None
    share = memory_of_rank(spec, of=model.shape)
    assert share is not None
    kept: Checkpointing = "full" if spec.workload.checkpointing else "none"
    microbatch = degrees.microbatch or spec.workload.global_batch // degrees.data
    whole = training_memory(model.shape, layout_of(spec.precision), microbatch, spec.workload.seq_len, kept)
    twin = _peak(share, degrees) if model is not spec.model else 0.0
    return float(whole.total_bytes) + ranks * (twin + float(share.weights_bytes))


def refuse_what_cannot_fit(spec: RunSpec, available_bytes: float | None = None) -> None:
    """Raises BadInput (TL211) with the arithmetic when the run needs more memory than there is.

    `available_bytes` None reads the host's; executors that are no part of this machine are not asked.
    """
    if not capabilities(spec.executor.kind).is_sized_by_theory:
        return
    free_bytes, where = (available_bytes, "this machine has free") if available_bytes is not None else _available(spec)
    bytes_needed, words = needed(spec)
    if bytes_needed is not None and bytes_needed > free_bytes:
        raise BadInput(
            f"it does not fit: {words} + {show(_SLACK_BYTES, BYTES)} for the runtime = {show(bytes_needed, BYTES)}, "
            f"and {where} {show(free_bytes, BYTES)}; take a smaller model, batch or precision",
            code="TL211",
        )
    _refuse_what_the_host_cannot_read(spec)


def _refuse_what_the_host_cannot_read(spec: RunSpec) -> None:
    """Raises BadInput (TL211) for a folder whose weights do not fit the host's memory, in which one process reads them
    before a GPU, or each rank its part on one, is given them."""
    ref = spec.model
    if ref.folder is None or ref.shape is None or not uses_gpu(spec.device):
        return
    read, free = _bytes_read(spec, ref.shape), float(psutil.virtual_memory().available)
    if read > free:
        raise BadInput(
            f"the weights of {ref.name} are read into the host's memory before the GPU has them: {show(read, BYTES)}, "
            f"and this machine has free {show(free, BYTES)}; take one with more memory, or a smaller model",
            code="TL211",
        )


def _bytes_read(spec: RunSpec, shape: ModelShape) -> float:
    """Of all weights in the format that they are made in at least: training keeps fp32, but for weights that stay."""
    stays = not isinstance(spec.workload, TrainingWorkload) or spec.workload.trained_adapter is not None
    is_half = stays and spec.point.precision not in ("fp32", "tf32", "int8-dynamic")
    return float(parameters(shape).total * (2 if is_half else 4))


def refuse_what_cannot_fit_together(specs: Sequence[RunSpec], available_bytes: float | None = None) -> None:
    """Raises BadInput (TL211) with the sum where points that are up at the same time need more memory than there is.

    Also where the size of one of several is not known: nothing then says that they fit. Each place has its own sum:
    points on the processor, and points on the GPU.
    """
    places: dict[str, list[RunSpec]] = {}
    for spec in specs:
        kind = spec.executor.kind
        if capabilities(kind).is_sized_by_theory or launches(kind):
            places.setdefault(_available(spec)[1], []).append(spec)
    for where, members in places.items():
        free_bytes = _available(members[0])[0] if available_bytes is None else available_bytes
        each = [needed(spec) for spec in members]
        known = [size for size, _ in each if size is not None]
        unknown = [why for size, why in each if size is None]
        if unknown and len(members) > 1:
            raise BadInput(
                "the points of a paired study are up together, and whether they fit is not known: "
                f'{unknown[0]}; set protocol.pairing = "none"',
                code="TL211",
            )
        if sum(known) > free_bytes:
            words = " + ".join(
                f"{show(size, BYTES)} ({spec.point.precision})" for size, spec in zip(known, members, strict=False)
            )
            raise BadInput(
                f"the points of a paired study are up together, and they do not fit: {words} = "
                f"{show(sum(known), BYTES)}, and {where} {show(free_bytes, BYTES)}; take fewer points or smaller ones, "
                'or protocol.pairing = "none"',
                code="TL211",
            )


def _available(spec: RunSpec) -> tuple[float, str]:
    if uses_gpu(spec.device):
        gpu = board_of(spec.device, open_gpus()[0])
        memory = gpu.ask("nvmlDeviceGetMemoryInfo") if gpu is not None else None
        # Which board it will be is not always known before torch has it: then nothing can be refused.
        return (math.inf, "the GPU has free") if memory is None else (float(memory.free), "the GPU has free")
    return float(psutil.virtual_memory().available), "this machine has free"
