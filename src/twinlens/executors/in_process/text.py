"""Token sequences and prompts as arrays: from the synthetic language, or from a local text file read as bytes."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np

from twinlens.errors import BadInput
from twinlens.schedule.content.language import Language, language
from twinlens.spec.model.any_model import Model, is_text, vocabulary
from twinlens.spec.workload.folder import Folder
from twinlens.spec.workload.workload import Data, Images, Markov, Text

_LANGUAGE_SEED = 1  # one language for all runs: repeats differ in their sentences, not in their grammar
_POOL_TOKENS = 1 << 17


class TokenSource:
    """Sequences of tokens for one model, by random stream. `entropy_rate_nats` is None where it is not known."""

    def __init__(self, data: Data, ref: Model) -> None:
        vocab = vocabulary(ref)
        self._language: Language | None = None
        if isinstance(data, Markov):
            symbols = min(data.symbols or vocab, vocab)
            self._language = language(symbols, data.branches, data.exponent, _LANGUAGE_SEED)
        elif isinstance(data, Text):
            self._text = _read_bytes(data.path, vocab)
        self.entropy_rate_nats = self._language.entropy_rate_nats if self._language else None

    def sequences(self, rng: np.random.Generator, count: int, length: int, *, held_out: bool = False) -> np.ndarray:
        """(count, length) int64. Held-out text is the last tenth of a file; the language never repeats itself."""
        if self._language:
            return self._language.sample(rng, count, length)
        edge = len(self._text) * 9 // 10
        text = self._text[edge:] if held_out else self._text[:edge]
        if len(text) <= length:
            raise BadInput(
                f"the text file is too short for sequences of {length} bytes; use a longer one", code="TL209"
            )
        starts = rng.integers(0, len(text) - length, count)
        return np.stack([text[s : s + length] for s in starts]).astype(np.int64)


class PromptPool:
    """Prompts cut from one long text made beforehand: making one costs microseconds, outside what is measured."""

    def __init__(self, data: Data, ref: Model, seed: int, longest: int) -> None:
        check_data(data, ref)
        length = max(_POOL_TOKENS, longest + 1)
        rng = np.random.default_rng([seed, 1])
        source = TokenSource(data, ref)
        rows = max(1, length // 1024)
        self._pool = source.sequences(rng, rows, -(-length // rows)).reshape(-1)

    def batch(self, seeds: list[tuple[int, ...]], length: int) -> np.ndarray:
        """(len(seeds), length) int64; equal seeds give equal prompts."""
        cuts = [self._pool[start : start + length] for start in (self._start(seed, length) for seed in seeds)]
        return np.stack(cuts)

    def _start(self, seed: tuple[int, ...], length: int) -> int:
        # A digest, not a generator: it stands between two requests, and a generator costs ten times as much to make.
        digest = hashlib.blake2b(repr(seed).encode(), digest_size=8).digest()
        return int.from_bytes(digest) % (len(self._pool) - length)


def check_data(data: Data, ref: Model) -> None:
    """Raises BadInput when the data is not of the model's kind."""
    vision = not is_text(ref)
    if isinstance(data, Folder):
        raise BadInput(
            'data of kind "folder" is read by the torch trainer of one process; take {"kind": "markov"}, a text '
            "file, or images",
            code="TL209",
        )
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
