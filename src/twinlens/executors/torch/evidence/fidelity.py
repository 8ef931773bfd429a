"""Distance of a lower precision from fp32: the same weights on the same prompts, one row of sums per prompt."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from twinlens.record.executor.facts import FidelityRow


def reference_logits(model: nn.Module, sample: torch.Tensor) -> list[torch.Tensor]:
    """fp32 log probabilities of each prompt of the sample, on the CPU: (positions, vocabulary) or (1, classes)."""
    with torch.inference_mode():
        return [_log_probabilities(model, row[None]).cpu() for row in sample]


def fidelity_rows(
    model: nn.Module, dtype: torch.dtype, sample: torch.Tensor | None, reference: list[torch.Tensor] | None
) -> tuple[FidelityRow, ...]:
    """One row per prompt of the sample, against `reference_logits` of the fp32 model; none without a sample.

    The sample is token ids, (prompts, length), or images of `dtype` after a cast, (prompts, channels, size, size).
    """
    if sample is None or reference is None:
        return ()
    rows = []
    with torch.inference_mode():
        for prompt, expected in zip(sample, reference, strict=True):
            is_image = prompt.is_floating_point()
            seen = _log_probabilities(model, prompt[None].to(dtype) if is_image else prompt[None])
            rows.append(_compare(seen.cpu(), expected, None if is_image else prompt))
    return tuple(rows)


def _compare(seen: torch.Tensor, expected: torch.Tensor, tokens: torch.Tensor | None) -> FidelityRow:
    agreed = int((seen.argmax(-1) == expected.argmax(-1)).sum())
    kl = float(F.kl_div(seen, expected, reduction="sum", log_target=True))
    nll = reference_nll = 0.0
    if tokens is not None:
        following = tokens[1:, None].cpu()
        nll = -float(seen[:-1].gather(1, following).sum())
        reference_nll = -float(expected[:-1].gather(1, following).sum())
    # A KL of nearly equal distributions can come out a rounding error below 0.
    return FidelityRow(len(seen), agreed, max(0.0, kl), nll, reference_nll)


def _log_probabilities(model: nn.Module, batch: torch.Tensor) -> torch.Tensor:
    if batch.is_floating_point():
        return model(pixel_values=batch).logits.float().log_softmax(-1)
    return model(input_ids=batch, use_cache=False).logits[0].float().log_softmax(-1)
