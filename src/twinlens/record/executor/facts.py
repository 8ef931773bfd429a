"""Facts that an executor gives once it is open: who really runs, and the quantities of one unit of work."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from twinlens.record.codec import decode, reads
from twinlens.record.estimate import Estimate
from twinlens.record.executor.record import ExecutorRecord, PrecisionCheck
from twinlens.record.finding import Finding

Estimates = dict[str, Estimate]


@dataclass(frozen=True, slots=True)
class FidelityRow:
    """One prompt seen by the lower precision and by fp32 with the same weights: counts and sums, nothing derived.

    `tokens`: positions compared; `agreed`: those with the same most likely token; `kl_nats`: sum of KL(fp32 ‖ this);
    `nll_nats`, `reference_nll_nats`: sums of the negative log likelihood of the text itself. `kl_top_nats`: the KL over
    the tokens that a server names, all others as one; `kl_nats` is None then. Of answers: `tokens` up to the first
    difference and the one where they part, `agreed` without it, and no KL.
    """

    tokens: int
    agreed: int
    kl_nats: float | None
    nll_nats: float
    reference_nll_nats: float
    kl_top_nats: float | None = None


@dataclass(frozen=True, slots=True)
class Compared:
    """How a server over HTTP was compared. `reference`: what with. `prompts`: identifies them.

    `reason`: why it was not (`how` is "none"). `instead`: why by answers and not by log probabilities.
    """

    how: Literal["log-probabilities", "answers", "none"]
    reference: str = ""
    prompts: str = ""
    reason: str = ""
    instead: str = ""


def _possible(data: Mapping[str, Any]) -> Mapping[str, Any]:
    if lacking := [name for name in _ALWAYS if name not in data]:
        raise KeyError(lacking[0])
    return {**data, "ceilings": ceilings_of(data["ceilings"])}


@reads(_possible)
@dataclass(frozen=True, slots=True)
class Facts:
    """Everything known before the first row.

    `work`: FLOP and bytes of one unit of work (step, prefill, decode), by convention. `ceilings`: measured rates of
    this machine at this precision. `memory`: bytes by category. `fidelity`: one row per prompt, empty where there is
    nothing to compare with. `compared`: how a server was, None for an executor here. `entropy_rate_nats`: the
    least possible loss of the training data, if it is known. `findings`: what a reader must see beside the numbers.
    `notes`: the same in sentences of its own, as an executor that has no words with us says it.
    `startup`: by metric, how long the start of an engine in this process took.
    """

    executor: ExecutorRecord
    precision: tuple[PrecisionCheck, ...] = ()
    work: Estimates = field(default_factory=dict)
    ceilings: Estimates = field(default_factory=dict)
    memory: Estimates = field(default_factory=dict)
    fidelity: tuple[FidelityRow, ...] = ()
    compared: Compared | None = None
    entropy_rate_nats: float | None = None
    notes: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
    startup: Estimates = field(default_factory=dict)


def ceilings_of(data: Mapping[str, Any]) -> Estimates:
    """Measured rates by name. Raises ValueError for one that no machine has: shares of it would be without end."""
    found = {name: decode(Estimate, each) for name, each in data.items()}
    for name, each in found.items():
        if why := absurd(name, each):
            raise ValueError(why)
    return found


def absurd(name: str, rate: Estimate) -> str | None:
    """Why a rate that was measured, or one end of its interval, is one of no machine; None where it may be."""
    told = [each for each in (rate.value, rate.low, rate.high) if each is not None and each > 0]
    odd = next((each for each in told if not _LEAST <= each <= _MOST), None)
    return None if odd is None else f"{name} is {odd:g} {rate.unit}, which no machine has"


_ALWAYS = ("precision", "work", "ceilings", "memory", "fidelity", "entropy_rate_nats", "notes")
_LEAST, _MOST = 1e-3, 1e27  # per second: a test's own machine may be slow, and all of the world's are below the most
