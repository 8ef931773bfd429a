"""Distance of a lower precision from fp32: the same weights on the same prompts, one row of sums per prompt."""

from __future__ import annotations

import torch
from torch import nn

from twinlens.executors.in_process.precision_check import compared_with
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
            tokens = None if is_image else prompt.cpu().numpy()
            rows.append(compared_with(expected.numpy(), seen.cpu().numpy(), tokens))
    return tuple(rows)


def _log_probabilities(model: nn.Module, batch: torch.Tensor) -> torch.Tensor:
    if batch.is_floating_point():
        return model(pixel_values=batch).logits.float().log_softmax(-1)
    return model(input_ids=batch, use_cache=False).logits[0].float().log_softmax(-1)
