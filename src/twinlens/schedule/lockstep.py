"""The closed loop of an engine-level run: `batch` requests start together, the next batch when all of them are done."""

from __future__ import annotations

import numpy as np

from twinlens.record.request import Request
from twinlens.schedule.draw import sample_length
from twinlens.schedule.request import ScheduledRequest
from twinlens.spec.workload.length import AnswerLength, Fixed


class LockstepLoop:
    """Batches until `until_ns` has passed and at least `min_requests` are done, or `give_up_ns` has passed.

    `from_first`: `until_ns` counts from the moment at which the first is handed out, as in a turn.
    Requests of one batch have the same lengths, drawn per batch: padding would be work that no request asked for.
    """

    def __init__(
        self,
        batch: int,
        input_tokens: AnswerLength | None,
        output_tokens: AnswerLength | None,
        *,
        until_ns: int,
        min_requests: int,
        give_up_ns: int | None = None,
        seed: int,
        first_group: int = 0,
        from_first: bool = False,
    ) -> None:
        self._batch, self._input, self._output = batch, input_tokens, output_tokens
        self._until_ns, self._min_requests, self._seed = until_ns, min_requests, seed
        self._give_up_ns, self._from_first = give_up_ns, from_first
        self._group = first_group
        self._started = self._ended = 0
        self._now_ns = 0

    def due(self, now_ns: int) -> tuple[ScheduledRequest, ...]:
        if self._from_first:
            self._until_ns, self._from_first = self._until_ns + now_ns, False
        self._now_ns = max(self._now_ns, now_ns)  # so that what is over here is over for `next_due_ns` too
        if self._ended < self._started or self._is_over(now_ns):
            return ()
        input_tokens, output_tokens = self._lengths()
        upcoming = tuple(
            ScheduledRequest(
                self._started + i, self._group, now_ns, input_tokens, output_tokens, seed=(self._seed, self._group, i)
            )
            for i in range(self._batch)
        )
        self._started += self._batch
        self._group += 1
        return upcoming

    def _lengths(self) -> tuple[int, int]:
        """Of the next batch, in tokens; 0 where there are none (images)."""
        prompt, answer = self._input, self._output
        if isinstance(prompt, Fixed) and isinstance(answer, Fixed):  # no generator, which costs more than all the rest
            return prompt.value, answer.value
        rng = np.random.default_rng([self._seed, self._group])
        return sample_length(prompt, rng) if prompt else 0, sample_length(answer, rng) if answer else 0

    def next_due_ns(self) -> int | None:
        running = self._ended < self._started
        return None if running or self._is_over(self._now_ns) else self._now_ns

    def done(self, request: Request) -> None:
        self._ended += 1
        self._now_ns = max(self._now_ns, request.end_ns)

    @property
    def groups(self) -> int:
        """Batches handed out so far, counted from `first_group`: where a continuation goes on."""
        return self._group

    def _is_over(self, now_ns: int) -> bool:
        if self._give_up_ns is not None and now_ns >= self._give_up_ns:
            return True
        return now_ns >= self._until_ns and self._ended >= self._min_requests
