"""The distance of one output from its reference: agreement, KL divergence and negative log likelihood, as sums."""

from __future__ import annotations

import math

import numpy as np

from twinlens.errors import ExecutorFailed
from twinlens.record.executor.facts import FidelityRow


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
