"""Batches and prompts as tensors: from the synthetic language, a local text file read as bytes, or random images."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import torch

from twinlens.errors import BadInput
from twinlens.executors.torch.model.prefetch import Ahead
from twinlens.schedule.content.language import Language, language
from twinlens.spec.model.reference import DecoderShape, ModelRef
from twinlens.spec.workload.workload import Data, Images, Markov, Text

_LANGUAGE_SEED = 1  # one language for all runs: repeats differ in their sentences, not in their grammar
_HELD_OUT = 10**6  # a random stream that no training batch uses
_POOL_TOKENS = 1 << 17


class TokenSource:
    """Sequences of tokens for one model, by random stream. `entropy_rate_nats` is None where it is not known."""

    def __init__(self, data: Data, ref: ModelRef) -> None:
        assert isinstance(ref.shape, DecoderShape)
        vocab = ref.shape.vocab
        self._language: Language | None = None
        if isinstance(data, Markov):
            symbols = min(data.symbols or vocab, vocab)
            self._language = language(symbols, data.branches, data.exponent, _LANGUAGE_SEED)
        elif isinstance(data, Text):
            self._text = _read_bytes(data.path, vocab)
        self.entropy_rate_nats = self._language.entropy_rate_nats if self._language else None

    def sequences(self, rng: np.random.Generator, count: int, length: int, *, held_out: bool = False) -> torch.Tensor:
        """(count, length) int64. Held-out text is the last tenth of a file; the language never repeats itself."""
        if self._language:
            return torch.from_numpy(self._language.sample(rng, count, length))
        edge = len(self._text) * 9 // 10
        text = self._text[edge:] if held_out else self._text[:edge]
        if len(text) <= length:
            raise BadInput(
                f"the text file is too short for sequences of {length} bytes; use a longer one", code="TL209"
            )
        starts = rng.integers(0, len(text) - length, count)
        return torch.from_numpy(np.stack([text[s : s + length] for s in starts]).astype(np.int64))


class Batches:
    """Training batches: `next()` gives (inputs, targets) on the device, `held_out(i)` the i-th fixed evaluation batch.

    `batch` rows at a time, cut from `together` rows drawn at once, so that accumulation sees the data of whole batches.
    Tokens: inputs and targets are (batch, seq_len). Images: (batch, channels, size, size) and (batch,).
    """

    def __init__(
        self, data: Data, ref: ModelRef, batch: int, seq_len: int, seed: int, device: torch.device, together: int
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
        self._classes = 0 if isinstance(ref.shape, DecoderShape) else ref.shape.labels
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
        text = self._tokens.sequences(rng, rows, self._seq_len + 1, held_out=held_out)
        return text[:, :-1], text[:, 1:]


class PromptTensors:
    """Prompts cut from one long text made beforehand: making one costs microseconds, outside what is measured."""

    def __init__(self, data: Data, ref: ModelRef, seed: int, longest: int) -> None:
        check_data(data, ref)
        length = max(_POOL_TOKENS, longest + 1)
        rng = np.random.default_rng([seed, 1])
        source = TokenSource(data, ref)
        rows = max(1, length // 1024)
        self._pool = source.sequences(rng, rows, -(-length // rows)).reshape(-1)

    def batch(self, seeds: list[tuple[int, ...]], length: int) -> torch.Tensor:
        """(len(seeds), length) int64; equal seeds give equal prompts."""
        cuts = [self._pool[start : start + length] for start in (self._start(seed, length) for seed in seeds)]
        return torch.stack(cuts)

    def _start(self, seed: tuple[int, ...], length: int) -> int:
        # A digest, not a generator: it stands between two requests, and a generator costs ten times as much to make.
        digest = hashlib.blake2b(repr(seed).encode(), digest_size=8).digest()
        return int.from_bytes(digest) % (len(self._pool) - length)


def images(ref: ModelRef, count: int, device: torch.device, seed: int) -> torch.Tensor:
    """(count, channels, size, size) standard normal pixels, fp32."""
    assert not isinstance(ref.shape, DecoderShape)
    generator = torch.Generator().manual_seed(seed)
    size = (count, ref.shape.channels, ref.shape.image_size, ref.shape.image_size)
    return torch.randn(size, generator=generator).to(device)


def check_data(data: Data, ref: ModelRef) -> None:
    """Raises BadInput when the data is not of the model's kind."""
    vision = ref.shape.family != "decoder"
    if vision != isinstance(data, Images):
        wanted = 'data = { kind = "images" }' if vision else 'data = { kind = "markov" } or a text file'
        raise BadInput(f"model {ref.name!r} and data of kind {data.kind!r} do not fit; it needs {wanted}", code="TL209")


def _read_bytes(path: str, vocab: int) -> np.ndarray:
    if vocab < 256:
        raise BadInput(f"a text file needs a vocabulary of at least 256, the model's is {vocab}", code="TL209")
    try:
        return np.frombuffer(Path(path).read_bytes(), dtype=np.uint8)
    except OSError as error:
        raise BadInput(f"cannot read the text file {path!r}: {error.strerror}", code="TL209") from None
