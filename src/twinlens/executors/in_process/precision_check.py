"""A precision as it came out: formats against those declared, and outputs against the fp32 reference."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TypeVar

import numpy as np

from twinlens.errors import ExecutorFailed
from twinlens.record.executor.facts import FidelityRow
from twinlens.record.executor.record import PrecisionCheck, Support
from twinlens.spec.precision import BITS

Amount = TypeVar("Amount", int, float)
_AGREES = 0.75  # of elements, FLOP or time: a model may keep a sensitive layer high, and the evidence says so


def precision_checks(
    declared: Mapping[str, str],
    resident: Mapping[str, Mapping[str, int]],
    ran: Mapping[str, float],
    support: Mapping[str, str],
    missing: str,
    counted: str = "matrix-product time",
) -> tuple[PrecisionCheck, ...]:
    """One check per declared tensor class ("compute" among them, if given), against memory and what ran.

    `resident`: bytes held, by class and format. `ran`: shares of the products by format, the largest first, of what
    `counted` says. `support`: format to "native" or "emulated" on this hardware. `missing`: why nothing is known of
    what ran. A class nobody can see (accumulation is inside the kernel) is "unknown", never "agrees".
    """
    return tuple(_check(name, fmt, resident, ran, support, missing, counted) for name, fmt in declared.items())


def summed(parts: Iterable[tuple[str, Amount]]) -> dict[str, Amount]:
    """Amounts added up by name, in the order in which the names came."""
    amounts: dict[str, Amount] = {}
    for name, amount in parts:
        amounts[name] = amounts[name] + amount if name in amounts else amount
    return amounts


def longest(spent: Iterable[tuple[str, float]], count: int = 8) -> list[str]:
    """Names of what took longest together. `spent`: name and seconds."""
    seconds = summed(spent)
    return sorted(seconds, key=lambda name: -seconds[name])[:count]


def shares_by_format(done: Iterable[tuple[str, float]]) -> dict[str, float]:
    """Share of all work by format, largest first. `done`: format and amount (FLOP or seconds); empty for nothing."""
    amounts = summed(done)
    total = math.fsum(amounts.values())
    ordered = sorted(amounts.items(), key=lambda item: -item[1])
    return {fmt: amount / total for fmt, amount in ordered} if total else {}


def over_phases(each: Mapping[str, tuple[PrecisionCheck, ...]]) -> tuple[PrecisionCheck, ...]:
    """One check per tensor class over everything that runs (prefill and decode).

    One phase that differs makes the whole differ; "agrees" wants every phase to have been seen.
    """
    return tuple(_merged(dict(zip(each, checks, strict=True))) for checks in zip(*each.values(), strict=True))


def _merged(checks: Mapping[str, PrecisionCheck]) -> PrecisionCheck:
    order = ("differs", "unknown", "agrees")
    worst = min(checks.values(), key=lambda check: order.index(check.verdict))
    if worst.tensor_class not in ("compute", "activations") or len(checks) == 1:
        return worst
    return replace(worst, evidence="; ".join(f"{phase}: {check.evidence}" for phase, check in checks.items()))


def _check(
    name: str,
    declared: str,
    resident: Mapping[str, Mapping[str, int]],
    ran: Mapping[str, float],
    support: Mapping[str, str],
    missing: str,
    counted: str,
) -> PrecisionCheck:
    computed = next(iter(ran), None)
    if name in ("compute", "activations"):
        shares = dict(ran)
        if name == "activations" and "tf32" in shares:  # tf32 is computed from activations that are stored in 32 bits
            shares["fp32"] = shares.get("fp32", 0.0) + shares.pop("tf32")
    else:
        shares, counted = _element_shares(resident.get(name, {})), "elements held"
        missing = f"{name} cannot be seen from outside the kernel" if name == "accumulation" else f"no {name} held"
    if not shares:
        return PrecisionCheck(name, declared, None, "unknown", _support(name, declared, computed, support), missing)
    dominant = max(shares, key=lambda fmt: shares[fmt])
    agrees = shares.get(declared, 0.0) >= _AGREES
    measured = ", ".join(f"{fmt} {share:.0%}" for fmt, share in sorted(shares.items(), key=lambda item: -item[1]))
    kind = _support(name, declared if agrees else dominant, computed, support)
    mixed = ", ".join(fmt for fmt, share in shares.items() if share >= 0.05)
    observed = declared if agrees else dominant if dominant != declared else mixed
    return PrecisionCheck(name, declared, observed, "agrees" if agrees else "differs", kind, f"{counted}: {measured}")


def _element_shares(formats: Mapping[str, int]) -> dict[str, float]:
    """Shares by elements, so that the narrow formats are not counted small for being narrow."""
    elements = {fmt: 8.0 * size / BITS.get(fmt, 64 if fmt.endswith("64") else 8) for fmt, size in formats.items()}
    total = math.fsum(elements.values())
    return {fmt: count / total for fmt, count in elements.items()} if total else {}


def _support(name: str, fmt: str, computed: str | None, support: Mapping[str, str]) -> Support:
    """Storage-only: held narrower than the products compute, so every use converts."""
    if name in ("weights", "kv") and computed and fmt != computed and BITS.get(fmt, 64) < BITS.get(computed, 0):
        return "storage-only"
    if fmt == "int4":
        return "storage-only"
    if fmt == "int32" and name == "accumulation":
        fmt = "int8"
    known = support.get(fmt, "unknown")
    return "native" if known == "native" else "emulated" if known == "emulated" else "unknown"


def log_softmax(logits: np.ndarray) -> np.ndarray:
    """Log probabilities in fp32 of logits (..., classes), worked out in fp64."""
    wide = logits.astype(np.float64)
    wide -= wide.max(-1, keepdims=True)
    result: np.ndarray = (wide - np.log(np.exp(wide).sum(-1, keepdims=True))).astype(np.float32)
    return result


def compared_with(reference: np.ndarray, seen: np.ndarray, tokens: np.ndarray | None) -> FidelityRow:
    """One row of sums over the positions of one prompt, or of one image.

    `reference`, `seen`: log probabilities in fp32, shape (positions, vocabulary) or (1, classes). `tokens`: the prompt,
    shape (positions,), whose following tokens the likelihood is of; None for images, which have none. What the
    reference rules out (-inf) adds nothing to KL.

    Raises ExecutorFailed (TL302) where the sums are not finite: `seen` is no distribution, or rules out what is there.
    """
    agreed = int((seen.argmax(-1) == reference.argmax(-1)).sum())
    with np.errstate(invalid="ignore"):
        terms = np.where(np.isneginf(reference) & ~np.isnan(seen), 0.0, np.exp(reference) * (reference - seen))
    kl = float(terms.sum(dtype=np.float64))
    nll = reference_nll = 0.0
    if tokens is not None:
        places = np.arange(len(tokens) - 1), tokens[1:]
        nll = -float(seen[places].sum(dtype=np.float64))
        reference_nll = -float(reference[places].sum(dtype=np.float64))
    if not all(map(math.isfinite, (kl, nll, reference_nll))):
        wrong = int((~np.isfinite(terms).all(-1)).sum())
        raise ExecutorFailed(
            f"outputs are no probabilities at {wrong or 'some'} of {len(seen)} positions that were compared with fp32 "
            "(NaN or infinite), so its speed is that of no model; take another precision or executor",
            code="TL302",
        )
    # A KL of nearly equal distributions can come out a rounding error below 0.
    return FidelityRow(len(seen), agreed, max(0.0, kl), nll, reference_nll)
