"""Batches and prompts as tensors: from the synthetic language, a local text file read as bytes, or random images."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader, RandomSampler

from twinlens.errors import BadInput
from twinlens.executors.in_process.inputs import PromptPool, TokenSource, check_data
from twinlens.executors.in_process.shards import Shards, decoded, refuse_undecodable, shards_of, tokens_of
from twinlens.record.finding import Finding
from twinlens.spec.model.any_model import Model, is_text, vocabulary
from twinlens.spec.model.shape import ResnetShape, VitShape
from twinlens.spec.workload.workload import Data, Folder, Images
from twinlens.system.page_cache import drop_pages

# Batches drawn ahead in a thread, into pinned memory: what a training loop on a GPU does, whose data must not wait. On
# a processor nothing is drawn ahead: the thread would take its time from the step itself.

Pair = tuple[torch.Tensor, torch.Tensor]
_AHEAD = 2


class Ahead:
    """Calls `draw` in a thread and hands out what it gave, in order, on `device`. Errors come out of `next`."""

    def __init__(self, draw: Callable[[], Pair], device: torch.device) -> None:
        self._draw, self._device = draw, device
        self._drawn: queue.Queue[Pair | BaseException] = queue.Queue(_AHEAD)
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def next(self) -> Pair:
        if self._thread is None:  # not before the first row: evidence draws nothing from here
            self._thread = threading.Thread(target=self._run, name="twinlens batches", daemon=True)
            self._thread.start()
        drawn = self._drawn.get()
        if isinstance(drawn, BaseException):
            raise drawn
        inputs, targets = drawn
        return inputs.to(self._device, non_blocking=True), targets.to(self._device, non_blocking=True)

    def close(self) -> None:
        """End the thread; it may be in the middle of a draw, which it finishes."""
        self._over.set()
        while self._thread is not None and self._thread.is_alive():
            try:
                self._drawn.get_nowait()
            except queue.Empty:
                self._thread.join(0.01)

    def _run(self) -> None:
        try:
            while not self._over.is_set():
                inputs, targets = self._draw()
                self._drawn.put((_pinned(inputs, self._device), _pinned(targets, self._device)))
        except BaseException as error:
            self._drawn.put(error)


def _pinned(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    return tensor.contiguous().pin_memory() if device.type == "cuda" else tensor


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


_HELD_OUT_SHARE = 16  # one part in so many is never trained on
_HELD_OUT_STREAM = 10**6
_A_PASS = 1 << 30


class FolderBatches:
    """Training batches from files: `next()` gives (inputs, targets) on the device, `held_out(i)` a fixed batch of the
    part that is not trained on."""

    def __init__(self, data: Folder, ref: Model, batch: int, seq_len: int, seed: int, device: torch.device) -> None:
        self._data, self._batch, self._device, self._seed = data, batch, device, seed
        self.shards = shards_of(data, ref)
        refuse_undecodable(data, self.shards.files)
        self._samples = Windows(self.shards, seq_len, vocabulary(ref)) if is_text(ref) else Pictures(self.shards, ref)
        self.entropy_rate_nats = self.shards.entropy_rate_nats
        self.how = f"read from files by {data.workers} workers" if data.workers else "read from files in the loop"
        self._loaded: Iterator[Any] | None = None

    def next(self) -> tuple[torch.Tensor, torch.Tensor]:
        if self._loaded is None:  # not before the first row: evidence draws nothing from here
            self._loaded = iter(self._loader())
        inputs, targets = next(self._loaded)
        return inputs.to(self._device, non_blocking=True), targets.to(self._device, non_blocking=True)

    def held_out(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        rng = np.random.default_rng([_HELD_OUT_STREAM, index])
        rows = [self._samples.held_out(rng) for _ in range(self._batch)]
        inputs, targets = (torch.stack(parts) for parts in zip(*rows, strict=True))
        return inputs.to(self._device), targets.to(self._device)

    def findings(self, microbatches: int) -> tuple[Finding, ...]:
        """Where the data comes from and how much of it a step of `microbatches` reads."""
        shards, data = self.shards, self._data
        numbers = {
            "origin": shards.origin,
            "files": len(shards.files),
            "size_bytes": shards.size_bytes,
            "sha256": shards.sha256,
            "step_bytes": round(self._samples.bytes_each * self._batch * microbatches),
            "workers": data.workers,
            "pages": data.pages,
        }
        return (Finding("data-from-files", "notes", "", numbers),)

    def close(self) -> None:
        """End the workers."""
        self._loaded = None

    def _loader(self) -> DataLoader[Any]:
        if self._data.pages == "cold" and not drop_pages(self.shards.files):
            raise BadInput('this system cannot drop pages of files: workload.data.pages = "warm"', code="TL209")
        order = torch.Generator().manual_seed(self._seed)
        drawn = RandomSampler(self._samples, replacement=True, num_samples=_A_PASS, generator=order)
        return DataLoader(
            self._samples,
            batch_size=self._batch,
            sampler=drawn,
            num_workers=self._data.workers,
            pin_memory=self._device.type == "cuda",
            drop_last=True,
        )


class Windows:
    """Windows of token files, which are mapped and read as they are used. `bytes_each`: that one window reads."""

    def __init__(self, shards: Shards, seq_len: int, vocab: int) -> None:
        self._tokens = [tokens_of(file, vocab) for file in shards.files]
        self._length = seq_len + 1
        self._starts = [
            len(tokens) * (_HELD_OUT_SHARE - 1) // _HELD_OUT_SHARE - self._length for tokens in self._tokens
        ]
        if min(self._starts) <= 0 or min(map(len, self._tokens)) < _HELD_OUT_SHARE * 2 * self._length:
            raise BadInput(f"a file of tokens is too short for sequences of {seq_len} tokens", code="TL209")
        self._edges = np.cumsum(self._starts)
        self.bytes_each = float(self._length * self._tokens[0].dtype.itemsize)

    def __len__(self) -> int:
        return int(self._edges[-1])

    def __getitem__(self, place: int) -> tuple[torch.Tensor, torch.Tensor]:
        file = int(np.searchsorted(self._edges, place, side="right"))
        return self._cut(file, place - int(self._edges[file]) + self._starts[file])

    def held_out(self, rng: np.random.Generator) -> tuple[torch.Tensor, torch.Tensor]:
        """A window of the last part of a file."""
        file = int(rng.integers(len(self._tokens)))
        first = self._starts[file] + self._length
        return self._cut(file, int(rng.integers(first, len(self._tokens[file]) - self._length)))

    def _cut(self, file: int, start: int) -> tuple[torch.Tensor, torch.Tensor]:
        text = torch.from_numpy(self._tokens[file][start : start + self._length].astype(np.int64))
        return text[:-1], text[1:]


class Pictures:
    """Images decoded, resized to the model's side and brought to the range of -1 to 1. `bytes_each`: of a file."""

    def __init__(self, shards: Shards, ref: Model) -> None:
        assert isinstance(ref.shape, VitShape | ResnetShape)
        self._side, self._channels, labels = ref.shape.image_size, ref.shape.channels, ref.shape.labels
        pairs = [(file, of % labels) for file, of in zip(shards.files, shards.classes, strict=True)]
        self._held_out, self._trained = pairs[::_HELD_OUT_SHARE], pairs
        if len(pairs) > 1:
            self._trained = [pair for i, pair in enumerate(pairs) if i % _HELD_OUT_SHARE]
        self.bytes_each = shards.size_bytes / len(pairs)

    def __len__(self) -> int:
        return len(self._trained)

    def __getitem__(self, place: int) -> tuple[torch.Tensor, torch.Tensor]:
        return self._read(*self._trained[place])

    def held_out(self, rng: np.random.Generator) -> tuple[torch.Tensor, torch.Tensor]:
        """An image that is not trained on."""
        return self._read(*self._held_out[int(rng.integers(len(self._held_out)))])

    def _read(self, file: Any, label: int) -> tuple[torch.Tensor, torch.Tensor]:
        pixels = torch.from_numpy(np.ascontiguousarray(decoded(file))).permute(2, 0, 1)[None].float()
        if pixels.shape[1] != self._channels:
            raise BadInput(f"{str(file)!r} has {pixels.shape[1]} channels, not {self._channels}", code="TL209")
        sized = F.interpolate(pixels, (self._side, self._side), mode="bilinear", antialias=True, align_corners=False)
        return sized[0] / 127.5 - 1, torch.tensor(label)
