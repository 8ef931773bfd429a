"""Moments of one loop added up to rows: one row for each optimizer step, one for each evaluation that was said."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from twinlens.executors.own_loop.step_size import StepWork
from twinlens.record.step import Marks, Steps

UNSIZED = (
    "nothing says how many samples a step has; take batches through `run.data(loader, samples=…)`, or count them with "
    "`with run.step(samples=…)`"
)
UNGRADED = "no-grad"
"""The tag of a step in which the model also ran without gradients: generation, or an evaluation nobody named."""
EXAMINED = "examined"
"""The tag of the early step in which evidence was taken: slower than others, and no part of a steady state."""


@dataclass(slots=True)
class _Row:
    """A row whose moments may not be known yet. `windows`: of the optimizer, with the phases that lie within each:
    an optimizer that is given a closure runs forward and backward inside its own step."""

    begin: Any = None
    end: Any = None
    spent: list[tuple[str, Any, Any]] = field(default_factory=list)
    windows: list[tuple[Any, Any, int, int]] = field(default_factory=list)
    work: StepWork = field(default_factory=StepWork)
    losses: list[Any] = field(default_factory=list)
    summed: bool = False
    tag: str | None = None
    kind: Literal["step", "evaluate"] = "step"


class StepLog:
    """Rows in the making. `take` gets those whose last moment is reached when a row begins, at most every `every_s`,
    so that a step does not wait for rows to be written. Times count from `origin_ns`."""

    def __init__(
        self, moments: Moments, take: Callable[[list[Marks]], None], origin_ns: int, every_s: float = 0.0
    ) -> None:
        self.moments, self._take, self._every_s = moments, take, every_s
        self._taken_s = time.monotonic()
        self._known, anchored_ns = moments.anchor()
        self._known_ns = anchored_ns - origin_ns
        self._row = _Row()
        self._before: Any = None
        self._ended = deque[_Row]()
        self._window: tuple[Any, int] | None = None
        self._aside = (0, 0)
        self.steps = 0

    def began(self, moment: Any) -> None:
        """Something of a step happened: its row begins where the row before ended, or here."""
        if self._row.begin is None:
            self._row.begin = moment if self._before is None else self._before
            if self._ended and time.monotonic() - self._taken_s >= self._every_s:
                self._drain()

    def spent(self, phase: str, begin: Any, end: Any) -> None:
        """Time in "data", "forward", "backward", "communicate" or "optimize"."""
        assert phase in Steps.PHASES, f"no phase is called {phase!r}"
        if self._row.begin is None:
            self.began(begin)
        self._row.spent.append((phase, begin, end))
        if phase == "backward":
            self._row.work.backwards += 1

    def counted(self, samples: int, tokens: int, real: Any = None) -> None:
        """One forward pass of so many samples and tokens, `real` of them no padding (a tensor is read when the row is
        written; None: not known)."""
        self._row.work.called(samples, tokens, real)

    def set_aside(self, samples: int, tokens: int) -> None:
        """A forward pass without gradients: of an evaluation, whose end may tell so, or else within this step."""
        self._aside = self._aside[0] + samples, self._aside[1] + tokens
        self._row.tag, self._row.work.aside = self._row.tag or UNGRADED, True

    def offered(self, samples: int, tokens: int) -> None:
        """A batch of so many was given to the loop, by its shapes."""
        self._row.work.offered(samples, tokens)

    def said(self, samples: int | None, tokens: int | None) -> None:
        """The user says how much a batch is, and no shape says better; None leaves it to the shapes."""
        self._row.work.said(samples, tokens)

    def lost(self, loss: Any, *, summed: bool = False) -> None:
        """The loss of one forward pass, a number or a tensor with one; a step's is their mean, or their sum.

        Said after the optimizer and before anything of the next step, it is that of the step that has just ended.
        """
        row = self._row
        if row.begin is None and self._ended and self._ended[-1].kind == "step":
            row = self._ended[-1]
        row.losses.append(loss)
        row.summed = summed

    def examined(self) -> None:
        """Evidence is taken in this step."""
        self._row.tag = EXAMINED

    @property
    def pending(self) -> tuple[int, int, int]:
        """Samples, tokens with padding, and batches of the step that is going on."""
        work = self._row.work
        return *work.size, work.passes

    def optimizing(self) -> None:
        """The optimizer begins."""
        self._window = (self.moments.now(), len(self._row.spent))

    def optimized(self) -> None:
        """The optimizer has ended; what is done until `ended` is part of this step, and of no phase."""
        if self._window is not None:
            begin, first = self._window
            self.began(begin)
            self._row.windows.append((begin, self.moments.now(), first, len(self._row.spent)))
            self._window = None

    def ended(self) -> None:
        """The step ends here; the next one begins here too. Raises ValueError for one of no known size."""
        row = self._row
        if not row.work.is_sized:
            raise ValueError(UNSIZED)
        end = self.moments.now()
        self.began(end)
        row.end = self._before = end
        self.steps += 1
        self._ended.append(row)
        self._row, self._aside = _Row(), (0, 0)

    def evaluated(self, begin: Any, end: Any, samples: int, tokens: int, loss: float | None) -> None:
        """An evaluation. Between two steps it belongs to neither; phases of a step that it interrupts are not known."""
        row = _Row(begin, end, kind="evaluate", work=StepWork(self._aside))
        row.work.said(samples or None, tokens or None)
        row.losses = [] if loss is None else [loss]
        self._aside = (0, 0)
        if self._row.tag == UNGRADED:
            self._row.tag, self._row.work.aside = None, False
        self._ended.append(row)
        self._before = end
        if self._row.begin is not None:
            self._row.begin, self._row.spent = end, []

    def drain(self) -> None:
        """Wait for all rows that have ended, and hand them over."""
        self.moments.wait()
        self._drain()

    def _drain(self) -> None:
        self._taken_s, rows = time.monotonic(), list[Marks]()
        while self._ended and self.moments.is_reached(self._ended[0].end):
            rows.append(self._resolved(self._ended.popleft()))
        if rows:
            self._take(rows)

    def _resolved(self, row: _Row) -> Marks:
        between = self.moments.between_ns
        lengths = [(phase, between(begin, end)) for phase, begin, end in row.spent]
        totals: dict[str, int] = {}
        for phase, length_ns in lengths:
            totals[phase] = totals.get(phase, 0) + length_ns
        for begin, end, first, last in row.windows:
            # A phase that had begun before the optimizer did is inside it from there on only.
            inside_ns = sum(between(a, b) + min(0, between(begin, a)) for _, a, b in row.spent[first:last])
            totals["optimize"] = totals.get("optimize", 0) + between(begin, end) - inside_ns
        begin_ns, (samples, tokens) = self._ns(row.begin), row.work.real_size
        phases: dict[str, Any] = {f"{phase}_ns": length_ns for phase, length_ns in totals.items()}
        return Marks(
            begin_ns,
            self._ns(row.end),
            samples=samples,
            tokens=tokens,
            loss=_loss_of(row),
            kind=row.kind,
            tag=row.tag,
            **phases,
        )

    def _ns(self, moment: Any) -> int:
        """From the last moment whose time is known: events of a GPU say only how far two of them are apart."""
        self._known_ns += self.moments.between_ns(self._known, moment)
        self._known = moment
        return self._known_ns


def _loss_of(row: _Row) -> float | None:
    """None where there is no loss, or what was given is no number: a row is not lost for that."""
    try:
        losses = [float(loss) for loss in row.losses]
    except Exception:  # of a number of somebody else's
        return None
    if not losses:
        return None
    return sum(losses) if row.summed else sum(losses) / len(losses)


class Moments(Protocol):
    """A clock whose moments may become known later than they are taken: a GPU's (`torch/own_loop/stream.py`)."""

    def now(self) -> Any:
        """This moment."""
        ...

    def between_ns(self, begin: Any, end: Any) -> int:
        """Nanoseconds from one moment to a later one, both reached."""
        ...

    def is_reached(self, moment: Any) -> bool:
        """Whether it has passed, so that its time is known."""
        ...

    def wait(self) -> None:
        """Until all moments that were taken are reached."""
        ...

    def anchor(self) -> tuple[Any, int]:
        """A moment, and what the processor's monotonic clock said then, in nanoseconds."""
        ...


class HostMoments:
    """Nanoseconds of the monotonic clock."""

    def now(self) -> int:
        return time.monotonic_ns()

    def between_ns(self, begin: int, end: int) -> int:
        return end - begin

    def is_reached(self, moment: int) -> bool:
        return True

    def wait(self) -> None:
        pass

    def anchor(self) -> tuple[int, int]:
        now_ns = time.monotonic_ns()
        return now_ns, now_ns
