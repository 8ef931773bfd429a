"""Inputs as arrays, the same for every engine: batches, the sample for fidelity, calibration data, and their texts."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np

from twinlens.errors import BadInput
from twinlens.schedule.language import Language, language
from twinlens.schedule.request import ScheduledRequest
from twinlens.spec.model.any_model import Model, is_text, vocabulary
from twinlens.spec.model.reference import ModelRef
from twinlens.spec.study import RunSpec
from twinlens.spec.workload.workload import Data, Folder, Images, InferenceWorkload, Markov, Text

_SAMPLE_TOKENS = 128
_EVIDENCE = 7


class Prompts:
    """Token ids of requests, (batch, length) int64. Raises BadInput (TL209) for data that is no text."""

    def __init__(self, spec: RunSpec, ref: Model) -> None:
        assert isinstance(spec.workload, InferenceWorkload)
        check_data(spec.workload.data, ref)
        self._spec, self._workload = spec, spec.workload
        self._pool = PromptPool(spec.workload.data, ref, spec.seed, spec.workload.input_tokens.max)

    def of(self, upcoming: tuple[ScheduledRequest, ...]) -> np.ndarray:
        return self._pool.batch([scheduled.seed for scheduled in upcoming], upcoming[0].input_tokens)

    def for_evidence(self) -> np.ndarray:
        """A batch of the run's own shape, that is no request's."""
        seeds: list[tuple[int, ...]] = [(_EVIDENCE, i) for i in range(self._spec.point.batch)]
        return self._pool.batch(seeds, self._workload.input_tokens.max)

    def sample(self) -> np.ndarray | None:
        """Prompts that fidelity is compared on; None where the workload wants none."""
        if not (count := self._workload.fidelity_prompts):
            return None
        length = min(_SAMPLE_TOKENS, self._workload.input_tokens.max)
        return self._pool.batch([(self._spec.protocol.seed, 9, i) for i in range(count)], length)


class Pictures:
    """Pixels of requests, (batch, channels, size, size) fp32, cut from random images made beforehand."""

    def __init__(self, spec: RunSpec, ref: Model, images: np.ndarray) -> None:
        assert isinstance(spec.workload, InferenceWorkload)
        check_data(spec.workload.data, ref)
        self._batch, self._count, self._images = spec.point.batch, spec.workload.fidelity_prompts, images

    def of(self, upcoming: tuple[ScheduledRequest, ...]) -> np.ndarray:
        first = upcoming[0].number % max(1, len(self._images) - len(upcoming) + 1)
        return self._images[first : first + len(upcoming)]

    def for_evidence(self) -> np.ndarray:
        """A batch of the run's own size."""
        return self._images[: self._batch]

    def sample(self) -> np.ndarray | None:
        """Images that fidelity is compared on; None where the workload wants none."""
        return self._images[: self._count] if self._count else None


# A precision is calibrated on data that is stated and never what is measured.

IMAGES, SEED = 32, 7
PROMPTS, LONGEST = 32, 128
OWN_STREAM = 10**9 + SEED  # of no run: those have the seeds of specs


def calibration_images(sides: tuple[int, int, int]) -> np.ndarray:
    """(images, 1, channels, size, size) fp32, standard normal: there are no photographs in the house."""
    return np.random.default_rng(SEED).standard_normal((IMAGES, 1, *sides), dtype=np.float32)


def image_sides(ref: ModelRef) -> tuple[int, int, int]:
    """(channels, size, size) of one image of a classifier."""
    size = int(ref.config.get("image_size", 224))
    return int(ref.config.get("num_channels", 3)), size, size


def calibration_said(ref: ModelRef, statistics: str) -> str:
    """One phrase for the record, with the hash of the images. `statistics`: what is taken of each activation."""
    digest = hashlib.sha256(calibration_images(image_sides(ref)).tobytes()).hexdigest()[:16]
    return f"{IMAGES} standard normal images, seed {SEED}, sha256 {digest}; {statistics}"


def calibration_prompts(spec: RunSpec) -> np.ndarray:
    """(prompts, length) int64 of the workload's own data, the same for every repeat."""
    assert isinstance(spec.workload, InferenceWorkload)
    length = min(LONGEST, spec.workload.input_tokens.max)
    pool = PromptPool(spec.workload.data, spec.model, OWN_STREAM, length)
    return pool.batch([(OWN_STREAM, place) for place in range(PROMPTS)], length)


def prompts_said(spec: RunSpec) -> str:
    """One phrase for the record: how many, how long, where from, and their hash."""
    assert isinstance(spec.workload, InferenceWorkload)
    prompts, data = calibration_prompts(spec), spec.workload.data
    origin = "cut from the workload's text" if isinstance(data, Text) else f"drawn from the workload's {data.kind} data"
    digest = hashlib.sha256(prompts.tobytes()).hexdigest()[:16]
    return f"{len(prompts)} prompts of {prompts.shape[1]} tokens {origin}, seed {OWN_STREAM}, sha256 {digest}"


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
