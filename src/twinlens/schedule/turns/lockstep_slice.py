"""One turn of an engine-level run: lockstep batches for so long from the moment the first is asked for."""

from __future__ import annotations

from twinlens.record.request import Request
from twinlens.schedule.loop.lockstep import LockstepLoop
from twinlens.schedule.request import ScheduledRequest
from twinlens.spec.workload.length import AnswerLength


class Slice:
    """Batches until `slice_ns` have passed since the first began, and `batches` of them at least."""

    def __init__(
        self,
        batch: int,
        input_tokens: AnswerLength | None,
        output_tokens: AnswerLength | None,
        *,
        slice_ns: int,
        batches: int,
        seed: int,
        first_group: int,
    ) -> None:
        self._batch, self._input, self._output = batch, input_tokens, output_tokens
        self._slice_ns, self._seed, self._first_group = slice_ns, seed, first_group
        self._least = batches
        self._batches: LockstepLoop | None = None

    def due(self, now_ns: int) -> tuple[ScheduledRequest, ...]:
        if self._batches is None:
            self._batches = LockstepLoop(
                self._batch,
                self._input,
                self._output,
                until_ns=now_ns + self._slice_ns,
                min_requests=self._batch * self._least,
                seed=self._seed,
                first_group=self._first_group,
            )
        return self._batches.due(now_ns)

    def next_due_ns(self) -> int | None:
        return self._batches.next_due_ns() if self._batches else 0

    def done(self, request: Request) -> None:
        if self._batches is not None:
            self._batches.done(request)

    @property
    def groups(self) -> int:
        """Batches handed out so far, counted from `first_group`: where the next slice goes on."""
        return self._batches.groups if self._batches else self._first_group
