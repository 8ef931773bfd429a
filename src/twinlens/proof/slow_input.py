"""The embedded trainer behind a slow data loader: each batch is unpacked from compressed text first."""

from __future__ import annotations

import zlib
from typing import Any

from twinlens.executors.protocol import Say
from twinlens.executors.torch.train import TorchTrainer
from twinlens.record.executor.facts import Facts
from twinlens.record.step import Marks
from twinlens.spec.study import RunSpec

_PACKED = zlib.compress(b"".join(b"%d " % (number * 2654435761 % 2**32) for number in range(400_000)), 9)
"""Four megabytes of numbers: some tens of milliseconds to unpack and split."""


class SlowInput:
    """Steps of the embedded trainer. Everything is its own but where batches come from."""

    def open(self, spec: RunSpec, say: Say) -> Facts:
        self._inner = TorchTrainer()
        facts = self._inner.open(spec, say)
        self._inner.batches = _Unpacked(self._inner.batches)  # type: ignore[assignment]
        return facts

    def step(self) -> Marks:
        return self._inner.step()

    def close(self) -> None:
        self._inner.close()


class _Unpacked:
    def __init__(self, batches: Any) -> None:
        self._batches = batches

    def next(self) -> Any:
        words = len(zlib.decompress(_PACKED).split())
        assert words, "what was unpacked is used, so nobody leaves it out"
        return self._batches.next()

    def close(self) -> None:
        self._batches.close()
