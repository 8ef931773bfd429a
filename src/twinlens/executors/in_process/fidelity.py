"""The distance of one output from its reference: agreement, KL divergence and negative log likelihood, as sums."""

from __future__ import annotations

import numpy as np

from twinlens.record.executor.facts import FidelityRow


def compared_with(reference: np.ndarray, seen: np.ndarray, tokens: np.ndarray | None) -> FidelityRow:
    """One row of sums over the positions of one prompt, or of one image.

    `reference`, `seen`: log probabilities in fp32, shape (positions, vocabulary) or (1, classes). `tokens`: the prompt,
    shape (positions,), whose following tokens the likelihood is of; None for images, which have none.
    """
    agreed = int((seen.argmax(-1) == reference.argmax(-1)).sum())
    kl = float((np.exp(reference) * (reference - seen)).sum(dtype=np.float64))
    nll = reference_nll = 0.0
    if tokens is not None:
        places = np.arange(len(tokens) - 1), tokens[1:]
        nll = -float(seen[places].sum(dtype=np.float64))
        reference_nll = -float(reference[places].sum(dtype=np.float64))
    # A KL of nearly equal distributions can come out a rounding error below 0.
    return FidelityRow(len(seen), agreed, max(0.0, kl), nll, reference_nll)
