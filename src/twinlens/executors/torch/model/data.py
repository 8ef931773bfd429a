"""Batches and prompts as tensors: from the synthetic language, a local text file read as bytes, or random images."""

from __future__ import annotations

import numpy as np
import torch

from twinlens.executors.in_process.inputs import PromptPool, TokenSource, check_data
from twinlens.executors.torch.model.prefetch import Ahead
from twinlens.spec.model.any_model import Model
from twinlens.spec.model.shape import ResnetShape, VitShape
from twinlens.spec.workload.workload import Data, Images

_HELD_OUT = 10**6  # a random stream that no training batch uses


class Batches:
    """Training batches: `next()` gives (inputs, targets) on the device, `held_out(i)` the i-th fixed evaluation batch.

    `batch` rows at a time, cut from `together` rows drawn at once, so that accumulation sees the data of whole batches.
    Tokens: inputs and targets are (batch, seq_len). Images: (batch, channels, size, size) and (batch,).
    """

    def __init__(
        self, data: Data, ref: Model, batch: int, seq_len: int, seed: int, device: torch.device, together: int
    ) -> None:
        check_data(data, ref)
        self._batch, self._together, self._seq_len, self._device = batch, together, seq_len, device
        self._rng = np.random.default_rng([seed, 0])
        self._drawn: list[tuple[torch.Tensor, torch.Tensor]] = []
        self._images = images(ref, together * 4, device, seed) if isinstance(data, Images) else None
        # Tokens are drawn ahead where another device computes on them; images lie on that device already.
        on_gpu = device.type == "cuda" and self._images is None
        self._ahead = Ahead(self._draw_tokens, device) if on_gpu else None
        self.how = "drawn ahead in a thread, from pinned memory" if on_gpu else "made in the loop"
        self._classes = ref.shape.labels if isinstance(ref.shape, VitShape | ResnetShape) else 0
        self._tokens = None if isinstance(data, Images) else TokenSource(data, ref)
        self.entropy_rate_nats = self._tokens.entropy_rate_nats if self._tokens else None

    def next(self) -> tuple[torch.Tensor, torch.Tensor]:
        if not self._drawn:
            inputs, targets = self._ahead.next() if self._ahead else self._draw(self._rng, self._together)
            self._drawn = list(zip(inputs.split(self._batch), targets.split(self._batch), strict=True))
        return self._drawn.pop(0)

    def held_out(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        return self._draw(np.random.default_rng([_HELD_OUT, index]), self._batch, held_out=True)

    def close(self) -> None:
        """End what draws ahead."""
        if self._ahead:
            self._ahead.close()

    def _draw_tokens(self) -> tuple[torch.Tensor, torch.Tensor]:
        return self._text(self._rng, self._together, held_out=False)

    def _draw(
        self, rng: np.random.Generator, rows: int, *, held_out: bool = False
    ) -> tuple[torch.Tensor, torch.Tensor]:
        if self._tokens is None:
            assert self._images is not None
            chosen = torch.from_numpy(rng.integers(0, len(self._images), rows)).to(self._device)
            labels = torch.from_numpy(rng.integers(0, self._classes, rows)).to(self._device)
            return self._images[chosen], labels
        inputs, targets = self._text(rng, rows, held_out=held_out)
        return inputs.to(self._device), targets.to(self._device)

    def _text(self, rng: np.random.Generator, rows: int, *, held_out: bool) -> tuple[torch.Tensor, torch.Tensor]:
        assert self._tokens is not None
        text = torch.from_numpy(self._tokens.sequences(rng, rows, self._seq_len + 1, held_out=held_out))
        return text[:, :-1], text[:, 1:]


class PromptTensors:
    """Prompts as tensors, of a pool made beforehand."""

    def __init__(self, data: Data, ref: Model, seed: int, longest: int) -> None:
        self._pool = PromptPool(data, ref, seed, longest)

    def batch(self, seeds: list[tuple[int, ...]], length: int) -> torch.Tensor:
        """(len(seeds), length) int64; equal seeds give equal prompts."""
        return torch.from_numpy(self._pool.batch(seeds, length))


def images(ref: Model, count: int, device: torch.device, seed: int) -> torch.Tensor:
    """(count, channels, size, size) standard normal pixels, fp32."""
    assert isinstance(ref.shape, VitShape | ResnetShape)
    generator = torch.Generator().manual_seed(seed)
    size = (count, ref.shape.channels, ref.shape.image_size, ref.shape.image_size)
    return torch.randn(size, generator=generator).to(device)
