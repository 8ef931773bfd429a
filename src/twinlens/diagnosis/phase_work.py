"""Work of each phase of a training step by theory: FLOP and least bytes of forward, backward and optimizer."""

from __future__ import annotations

from twinlens.diagnosis.phase import known
from twinlens.errors import BadInput
from twinlens.record.run import Run
from twinlens.spec.model.shape import DecoderShape
from twinlens.spec.workload.workload import TrainingWorkload
from twinlens.theory.flop import forward_flop_per_image, optimizer_flop
from twinlens.theory.memory import layout_of
from twinlens.theory.traffic import training_phase_bytes


def phase_work(run: Run) -> dict[str, tuple[float, float]]:
    """FLOP and bytes of one step by phase, which sum to the step's; empty where the model or the work is not known, and
    where an adapter is trained.

    Forward is a third of the FLOP of a decoder's step, as backward forms two products for each of forward's. FLOP of
    the optimizer are elementwise and come on top.
    """
    workload, done = run.spec.workload, known(run.facts.work, "step_flop") if run.facts else None
    if not isinstance(workload, TrainingWorkload) or done is None or workload.method != "full":
        return {}
    try:
        shape = run.spec.model.shape
    except BadInput:
        return {}  # the model's folder is not here any more
    if shape is None:
        return {}
    if isinstance(shape, DecoderShape):
        forward, seq_len = done / 3, workload.seq_len
    else:
        forward, seq_len = forward_flop_per_image(shape) * workload.global_batch, None
    flop = {"forward": forward, "backward": done - forward, "optimize": optimizer_flop(shape)}
    microbatch = run.spec.point.microbatch or workload.global_batch
    accumulation = workload.global_batch // microbatch
    moved = training_phase_bytes(shape, layout_of(run.spec.precision), microbatch, seq_len, accumulation)
    return {phase: (flop[phase], float(moved[phase])) for phase in flop}
