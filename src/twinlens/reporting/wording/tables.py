"""Findings of tables in words: what an executor is good for, and what stands against a split of a token's time."""

from __future__ import annotations

from twinlens.record.finding import Finding
from twinlens.reporting.display import clean
from twinlens.reporting.wording.effect import label_of
from twinlens.reporting.wording.number import number, numbers
from twinlens.units import BYTES, digits, show

_WORK = {"training": "training", "inference": "inference with"}


def _good(finding: Finding) -> str:
    return f"Good for {_what(finding)}; what limits it: {_resource(finding)}."


def _inadequate(finding: Finding) -> str:
    why = ", ".join(clean(each.code, 40).replace("-", " ") for each in finding.because)
    return f"Inadequate for {_what(finding)}: {why}; what limits it: {_resource(finding)}."


def _unknown(finding: Finding) -> str:
    return f"Not judged for {_what(finding)}: the run is not valid ({clean(number(finding, 'label'), 40)})."


def _what(finding: Finding) -> str:
    model, precision = numbers(finding, "model", "precision")
    work = _WORK.get(finding.subject, clean(finding.subject, 20))
    return f"{work} {clean(model, 40)} in {clean(precision, 40)}"


_LIMITS = {
    "indeterminate": "not known", "kernel-bound": "the rate of its kernels",
    "below-ceilings": "no ceiling, it is below both", "latency-bound": "fixed costs of a step",
}  # fmt: skip
"""Verdicts that name no resource, as what limits a run."""


def _resource(finding: Finding) -> str:
    known = str(number(finding, "resource"))
    return _LIMITS.get(known) or clean(known.replace("-bound", ""), 40)


def _state(finding: Finding) -> str:
    needed, memory, tokens = numbers(finding, "needed_bytes", "memory_bytes", "tokens")
    held = "holds" if number(finding, "fits") else "cannot hold"
    return (
        f"Its memory ({show(memory, BYTES)}) {held} the training state of this model: {show(needed, BYTES)} in bf16 "
        f"with AdamW, one sequence of {tokens:,} tokens."
    )


def _kernels(finding: Finding) -> str:
    runtime = clean(number(finding, "runtime"), 40)
    return f"{runtime} has kernels of its own, so the engine's time stands for them and is not theirs."


def _no_share(finding: Finding) -> str:
    ratio = digits(number(finding, "ratio"), 3)
    return (
        f"{label_of(finding.subject)}: the engine takes ×{ratio} as long as the server, so there is nothing to split."
    )


SENTENCES = {
    "good-for": _good,
    "inadequate-for": _inadequate,
    "fitness-unknown": _unknown,
    "training-state": _state,
    "kernels-differ": _kernels,
    "no-kernel-share": _no_share,
}
