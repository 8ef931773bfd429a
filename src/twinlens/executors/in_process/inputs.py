"""The batches that an engine is given and the sample that its fidelity is compared on, the same for every engine."""

from __future__ import annotations

import numpy as np

from twinlens.executors.in_process.text import PromptPool, check_data
from twinlens.schedule.request import ScheduledRequest
from twinlens.spec.model.any_model import Model
from twinlens.spec.study import RunSpec
from twinlens.spec.workload.workload import InferenceWorkload

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
