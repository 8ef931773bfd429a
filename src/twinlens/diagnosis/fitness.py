"""Fitness of an executor for the work that it was measured on: good for it, or inadequate, and by which resource."""

from __future__ import annotations

from twinlens.diagnosis.asked import shape_of
from twinlens.diagnosis.evidence import evidence_of
from twinlens.diagnosis.verdict import verdict_of
from twinlens.errors import BadInput
from twinlens.record.finding import Finding
from twinlens.record.run import Run
from twinlens.spec.precision import PRECISIONS
from twinlens.stats.summary.group import Summary
from twinlens.theory.memory import layout_of, training_memory

_UNFIT = ("slo-missed", "fidelity-failed", "target-missed", "diverged")
"""Findings that say that the work was not done as it must be; all others say that the measurement was not good."""


def fitness(run: Run, summary: Summary) -> Finding:
    """`good-for` its work where the run is ranked, `inadequate-for` where a target was missed, else `fitness-unknown`.

    `resource`: what binds, by the diagnosis; of a failed fidelity gate or a diverged loss, the precision.
    """
    because = tuple(each for each in summary.findings if each.code in _UNFIT)
    try:
        bound = verdict_of(evidence_of(run, summary)).code
    except BadInput:
        bound = "indeterminate"
    by_format = any(each.code in ("fidelity-failed", "diverged") for each in because)
    numbers = {
        "lens": run.lens, "model": summary.model, "precision": summary.point["precision"],
        "resource": "precision" if by_format else bound, "label": summary.label,
    }  # fmt: skip
    code = "inadequate-for" if because else "good-for" if summary.ranked else "fitness-unknown"
    return Finding(code, "notes", run.lens, numbers, because=because)


def training_state(run: Run) -> Finding | None:
    """Whether the memory of an executor that serves a decoder could hold that model's training state, by theory.

    bf16 mixed precision with AdamW, one sequence of the served length, everything recomputed: the least there is. None
    of a training run, and where shape or memory is not known.
    """
    shape = shape_of(run)
    facts = run.facts.executor if run.facts else None
    if run.lens == "training" or shape is None or facts is None:
        return None
    memory = facts.value("accelerator.memory_bytes") or facts.value("host.memory_bytes")
    if not isinstance(memory, int | float) or memory <= 0:
        return None
    workload = run.spec.workload
    lengths = [getattr(workload, name, None) for name in ("input_tokens", "output_tokens")]
    tokens = sum(each.max for each in lengths if each is not None) or 1
    needed = training_memory(shape, layout_of(PRECISIONS["bf16"]), 1, tokens, "full").total_bytes
    numbers = {"needed_bytes": needed, "memory_bytes": memory, "fits": needed <= memory, "tokens": tokens}
    return Finding("training-state", "notes", "training", numbers)
