"""A training loop that somebody else wrote, watched: what `tl.watch` gives, and what the callbacks drive."""

from __future__ import annotations

import contextlib
import os
import weakref
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self

from rich.console import Console

from twinlens.errors import BadInput
from twinlens.executors.own_loop.step_log import HostMoments, StepLog
from twinlens.executors.own_loop.step_size import size_of
from twinlens.measurement.facts.predicted_work import within_datasheet
from twinlens.measurement.own_loop.facts import (
    UNSEEN,
    machine_facts,
    model_at_hand,
    most_of_memory,
    one_rank_of,
    whole_facts,
)
from twinlens.measurement.own_loop.recording import (
    Data,
    Recording,
    StepSize,
    Watching,
    no_number,
    own_spec,
    refuse_wrong,
    warn,
)
from twinlens.record.estimate import Estimate
from twinlens.record.executor.facts import Facts
from twinlens.record.run import State
from twinlens.spec.precision import AS_FOUND, Precision
from twinlens.system.interrupts import ignore_interrupts
from twinlens.units import RATIO

if TYPE_CHECKING:
    from twinlens.executors.torch.own_loop.side import TorchSide


_OPEN: weakref.WeakSet[OwnLoop] = weakref.WeakSet()


def _forked() -> None:
    """In a process that was forked inside the block: the loop goes on there unwatched, the files are the parent's."""
    for loop in tuple(_OPEN):
        loop.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


class OwnLoop:
    """One loop while it is watched. An error of ours ends the watching, with a warning, and never the loop.

    So each entry and exit is guarded, a warning that is an error here (`-W error`) is a line on stderr, and a process
    that was forked inside the block writes nothing.
    """

    def __init__(self, model: Any = None, optimizer: Any = None, how: Watching = Watching()) -> None:
        refuse_wrong(how.name, how.precision)
        if (model is None) != (optimizer is None):
            raise BadInput("tl.watch takes a model and its optimizer, or neither; give both", code="TL222")
        self._how = how
        self._side = self._side_of(model, optimizer)
        self._rank, self._ranks = self._place()
        self._is_open = self._is_elsewhere = self._evaluates = False
        self._recording: Recording | None = None
        self._is_known: Literal["", "even", "uneven"] = ""
        self._first: StepSize | None = None
        self._steps = self._odd = 0
        self._seen: tuple[Precision, Facts] | None = None
        self._warned = False
        self._lost: str | None = None
        self._why: str | None = None

    @property
    def folder(self) -> Path | None:
        """The run folder; there is one from entering on, on the first rank, where one could be made."""
        return self._recording.folder if self._recording else None

    def __enter__(self) -> Self:
        if self._rank:
            return self
        try:
            self._enter()
        except BadInput:
            raise
        except Exception as error:  # the boundary between an observer and what it observes
            self._give_up(f"{type(error).__name__}: {error}")
        return self

    def _enter(self) -> None:
        how, side = self._how, self._side
        model = side.name if side else how.name
        spec = own_spec(how, model, None, how.precision)
        gpus = side.gpus if side else None
        self._machine = machine_facts(gpus, on_gpu=gpus is not None, says_device=side is not None)
        try:
            self._recording = Recording(spec, how.out, gpus, knows_others=True)
        except OSError as error:
            raise BadInput(f"cannot write into {str(how.out)!r}: {error.strerror or error}", code="TL205") from None
        moments = side.moments if side else HostMoments()
        self.log = StepLog(moments, self._recording.take, self._recording.origin_ns, every_s=how.write_s)
        self._is_open = True
        _OPEN.add(self)
        if side is not None:
            side.attach(self.log, self.guard, self._step_ends, events=how.events)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        recording = self._recording
        if self._rank or self._is_elsewhere or recording is None:
            return
        _OPEN.discard(self)
        try:
            with ignore_interrupts():
                self._leave(recording, *self._end(kind, error))
        except Exception as failed:  # a full disk, a folder that is gone: the run is visibly unfinished
            warn(f"tl.watch could not end its run: {failed}", 3)

    def _leave(self, recording: Recording, state: State, why: str | None) -> None:
        self._is_open, was_open = False, self._is_open
        self._detach()
        if was_open:
            self.log.drain()
            recording.stop()
            if not self._is_known or (self._how.ceilings and state == "finished"):
                self._know(ceilings=state == "finished" and self._how.ceilings)
        else:
            with contextlib.suppress(Exception):  # rows that were whole before the watching ended
                self.log.drain()
        recording.end(state, why)
        with contextlib.suppress(OSError, ValueError):  # nobody reads stderr; its user has no other screen
            told = Console(stderr=True, highlight=False, markup=False, emoji=False)
            told.print(f"twinlens: the run is in {recording.folder} ({state})", soft_wrap=True)

    def forget(self) -> None:
        """Watch no more, and write nothing: this process was forked inside the block, and the files are another's."""
        self._is_open, self._is_elsewhere = False, True
        self._detach()

    def _detach(self) -> None:
        if self._side is not None:
            with contextlib.suppress(Exception):  # hooks that cannot be taken away do nothing: the loop is not open
                self._side.detach()

    @property
    def is_recording(self) -> bool:
        """Whether rows are taken: not on other ranks than the first, and not after an error of ours."""
        return self._is_open

    def telemetry_cost(self) -> Estimate:
        """Processor time of the telemetry beside the loop, as a share of the time it was on."""
        if self._recording is None:
            return Estimate.absent(RATIO, "this process records nothing")
        return self._recording.sampler.cost()

    def leave(self, why: str | None) -> None:
        """End it without an exception at hand: whole where `why` is None, else interrupted."""
        self._why = why
        self.__exit__(None, None, None)

    def pass_begins(self) -> None:
        """A callback says that a forward pass begins."""
        if self._side is not None:
            self._side.pass_begins(self.log)()

    def pass_ended(self) -> None:
        """A callback says that a backward pass has ended."""
        if self._side is not None:
            self._side.pass_ended()

    def data(self, loader: Iterable[Any], *, samples: int | None = None, tokens: int | None = None) -> Data:
        """The same batches; the time waited for each is the step's data phase.

        `samples`, `tokens`: of every batch, where its tensors' shapes do not show them; one alone leaves the other to
        the shapes.
        """
        said = None if samples is None and tokens is None else (samples, tokens)
        waited = self.guard(lambda began: self.log.spent("data", began, self.log.moments.now()))
        return Data(loader, self._now, waited, self.guard(lambda batch: self._offer(batch, said)))

    @contextlib.contextmanager
    def phase(self, name: Literal["data", "forward", "backward", "communicate", "optimize"]) -> Iterator[None]:
        """A phase that this loop knows of and no hook sees."""
        with self._around(lambda begin: self.log.spent(name, begin, self.log.moments.now())):
            yield

    @contextlib.contextmanager
    def save(self) -> Iterator[None]:
        """A save of weights or state, as long as it blocks the loop; after a step it stands in the row of the next.

        With a save the run has goodput, from entering the block to the end of the last row.
        """
        with self._around(lambda begin: self.log.spent("checkpoint", begin, self.log.moments.now())):
            yield

    @contextlib.contextmanager
    def step(self, *, samples: int = 0, tokens: int = 0, loss: float | None = None) -> Iterator[None]:
        """One step of a loop without torch. Where an optimizer says when a step ends, it says nothing, and warns."""
        if self._side is not None:
            if not self._warned:
                self._warned = True
                warn("tl.watch: the optimizer says when a step ends; leave run.step out", 4)
            yield
            return

        def ended(begin: Any) -> None:
            self.log.began(begin)
            if samples or tokens:
                self.log.counted(samples or 1, tokens)
            if loss is not None:
                self.log.lost(loss)
            self._step_ends()
            self.log.ended()

        self.guard(lambda: self.log.began(self.log.moments.now()))()
        with self._around(ended):
            yield

    @contextlib.contextmanager
    def evaluation(self, *, samples: int = 0, tokens: int = 0) -> Iterator[None]:
        """A look at held-out data: a row of its own, whose time and batches belong to no step."""
        self._evaluates = True
        try:
            with self._around(lambda begin: self.log.evaluated(begin, self.log.moments.now(), samples, tokens, None)):
                yield
        finally:
            self._evaluates = False

    def loss(self, loss: Any) -> None:
        """The loss of this forward pass, a number or a tensor with one, where the model does not give it."""
        if (was := no_number(loss)) is not None:
            if not self._warned and self._is_open:
                self._warned = True
                warn(f"tl.watch: run.loss takes a number or a tensor with one, and was given {was}: not recorded", 3)
            return
        self.guard(lambda: self.log.lost(loss.detach() if hasattr(loss, "detach") else loss))()

    def guard(self, call: Callable[..., None]) -> Callable[..., None]:
        """The same call, of which no error reaches the loop."""

        def hook(*args: Any, **kwargs: Any) -> None:
            if not self._is_open:
                return
            try:
                call(*args, **kwargs)
            except Exception as error:  # the boundary between an observer and what it observes
                self._give_up(f"{type(error).__name__}: {error}")

        return hook

    def _now(self) -> Any:
        if not self._is_open:
            return None
        try:
            return self.log.moments.now()
        except Exception as error:
            self._give_up(f"{type(error).__name__}: {error}")
            return None

    def _offer(self, batch: Any, said: tuple[int | None, int | None] | None) -> None:
        if self._evaluates:
            return
        if (size := size_of(batch)) is not None:
            self.log.offered(*size)
        if said is not None:
            self.log.said(*said)

    @contextlib.contextmanager
    def _around(self, then: Callable[[Any], None]) -> Iterator[None]:
        begin = self._now()
        yield
        self.guard(then)(begin)

    def _step_ends(self) -> None:
        """Before the step is over, so that looking at it belongs to it."""
        size = self.log.pending
        if self._first is None:
            self._first = StepSize(*size)
        self._steps, self._odd = self._steps + 1, self._odd + (size != self._first)
        if not self._is_known and (self._side is None or self._side.is_seen):
            self.log.examined()
            self._know()
        elif self._is_known == "even" and not self._is_even:
            self._know()

    @property
    def _is_even(self) -> bool:
        """Whether all but a hundredth of the steps are of the first one's size."""
        return self._odd * 100 <= self._steps

    def _know(self, *, ceilings: bool = False) -> None:
        """Put into the record what the steps so far have shown."""
        self._is_known = "even" if self._is_even else "uneven"
        how, side, size = self._how, self._side, self._first
        model, config, count = (side.name, side.config, side.parameters) if side else (how.name, None, 0)
        if self._seen is None:  # once: right after a step its gradients are there
            passes = size.passes if size else 1
            self._seen = side.facts(how.precision, passes) if side else (AS_FOUND, UNSEEN)
        regime, said = self._seen
        spec = own_spec(how, model, size, how.precision or regime.name)
        split = side.ranks_of_layers if side else 1
        at_hand = model_at_hand(model, config, count)
        facts = whole_facts(spec, said, self._machine, at_hand, even=self._is_even, split=split)
        if ceilings and side is not None and regime != AS_FOUND and size is not None:
            rows = (size.tokens or size.samples) // max(1, size.passes)
            found = within_datasheet(side.ceilings(spec, regime, rows), facts.ceilings or most_of_memory(facts))
            facts = replace(facts, ceilings=found | facts.ceilings)
        assert self._recording is not None, "an open loop is recorded"
        self._recording.know(spec, replace(facts, findings=one_rank_of(self._ranks, split)))

    def _give_up(self, why: str) -> None:
        self._is_open, self._lost = False, why
        self._detach()
        warn(f"tl.watch stopped watching, and the loop goes on: {why}", 5)

    def _end(self, kind: type[BaseException] | None, error: BaseException | None) -> tuple[State, str | None]:
        if kind is None and self._lost:
            return "failed", f"the watching ended before the loop: {self._lost}"
        if kind is None:
            return ("finished", None) if self._why is None else ("interrupted", self._why)
        if issubclass(kind, KeyboardInterrupt | SystemExit | GeneratorExit):
            return "interrupted", f"the loop was left by {kind.__name__}"
        return "failed", f"{kind.__name__}: {error}"

    def _side_of(self, model: Any, optimizer: Any) -> TorchSide | None:
        if model is None:
            return None
        from twinlens.executors.torch.own_loop.side import TorchSide

        return TorchSide(model, optimizer, profile=self._how.profile)

    def _place(self) -> tuple[int, int]:
        if self._side is None:
            return 0, 1
        from twinlens.executors.torch.own_loop.side import rank_and_ranks

        return rank_and_ranks()
