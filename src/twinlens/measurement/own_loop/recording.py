"""The run folder of somebody's own loop: its spec, rows and telemetry while it goes on, then facts, and its end."""

from __future__ import annotations

import contextlib
import math
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from twinlens.errors import BadInput
from twinlens.measurement.machine.energy import open_meters
from twinlens.measurement.machine.telemetry import Sampler
from twinlens.record.codec import encode
from twinlens.record.executor.facts import Facts
from twinlens.record.run import State
from twinlens.record.step import Marks, step_table
from twinlens.record.store import create_run, end_run, open_rows, open_telemetry, update_run
from twinlens.spec.point import Point
from twinlens.spec.precision import AS_FOUND, precision
from twinlens.spec.protocol import Protocol
from twinlens.spec.study import ExecutorSpec, RunSpec
from twinlens.spec.workload.workload import Own, TrainingWorkload
from twinlens.system.home_folder import as_tilde
from twinlens.system.nvml import open_gpus

_MOST_SHARE = 0.002
"""Of a processor, for telemetry: the loop is somebody's own, and of its time watching may take 1 % altogether."""


class Recording:
    """Open from its making until `stop`. Raises OSError where the folder cannot be made."""

    def __init__(self, spec: RunSpec, out: Path, gpus: tuple[str, ...] | None, *, knows_others: bool) -> None:
        self.folder = create_run(out, spec)
        update_run(self.folder, place="here")
        self._open = contextlib.ExitStack()
        self._rows = self._open.enter_context(open_rows(self.folder, spec))
        readings = self._open.enter_context(open_telemetry(self.folder))
        boards = open_gpus(gpus)[0] if gpus else ()
        meters = open_meters(boards, boards=gpus or ())
        sampler = Sampler(
            readings.add_all, boards, spec.protocol.telemetry_s, meters=meters, knows_others=knows_others,
            most_share=_MOST_SHARE,
        )  # fmt: skip
        self.sampler = self._open.enter_context(sampler)
        self.origin_ns = time.monotonic_ns()

    def take(self, rows: Sequence[Marks]) -> None:
        """More rows, which are on disk when this returns."""
        self._rows.add_table(step_table(rows))

    def know(self, spec: RunSpec, facts: Facts) -> None:
        """What was seen of the first steps takes the place of what was not known yet."""
        update_run(self.folder, asked=spec.to_dict(), fingerprint=spec.fingerprint(), facts=as_tilde(encode(facts)))

    def stop(self) -> None:
        """No more rows and no more telemetry; may be called again. Raises ExecutorFailed where the disk is full."""
        self._open.close()

    def end(self, state: State, error: str | None) -> None:
        """Say how it ended."""
        self.stop()
        end_run(self.folder, state, error, rows=self._rows.count if state == "finished" else None)


class Data:
    """The batches of a loader, unchanged. `now` is asked before each wait, `waited` is told of it afterwards, `offer`
    of each batch: plain calls, as a context manager around each wait would cost several times as much."""

    def __init__(
        self,
        loader: Iterable[Any],
        now: Callable[[], Any],
        waited: Callable[[Any], None],
        offer: Callable[[Any], None],
    ) -> None:
        self._loader, self._now, self._waited, self._offer = loader, now, waited, offer

    def __len__(self) -> int:
        return len(self._loader)  # type: ignore[arg-type]

    def __iter__(self) -> Iterator[Any]:
        began = self._now()
        batches = iter(self._loader)
        while True:
            batch = next(batches, _OVER)
            self._waited(began)
            if batch is _OVER:
                return
            self._offer(batch)
            yield batch
            began = self._now()


_OVER = object()


KIND = "own-loop"
"""The executor of such a run. No spec can name it: the loop is in a program of the user's."""
_LONGEST_NAME = 61


class StepSize(NamedTuple):
    """Samples and tokens of one step, and the forward passes that it took; tokens 0 where there are none."""

    samples: int
    tokens: int
    passes: int


@dataclass(frozen=True, slots=True)
class Watching:
    """How a loop is watched. `events`: a callback tells of forward and backward, so the model gets no hooks.

    `write_s`: rows are written when a step begins and so long has passed; a kill loses those of that time.
    """

    name: str = "own-loop"
    out: Path = Path("runs")
    precision: str | None = None
    steady_s: float = 30.0
    telemetry_s: float = 1.0
    profile: bool = True
    ceilings: bool = False
    events: bool = False
    write_s: float = 1.0


def own_spec(how: Watching, model: str, size: StepSize | None, regime: str | None) -> RunSpec:
    """`size` None, `regime` None: not seen yet. A batch that is no whole number of microbatches has none."""
    samples, tokens, passes = (size.samples, size.tokens, size.passes) if size else (1, 1, 1)
    microbatch = samples // passes if passes > 1 and samples and samples % passes == 0 else None
    return RunSpec(
        name=how.name,
        executor=ExecutorSpec(kind=KIND),
        workload=TrainingWorkload(
            kind="training",
            model=model,
            global_batch=max(1, samples),
            seq_len=max(1, tokens // max(1, samples)),
            optimizer="own",
            data=Own(),
        ),
        point=Point(precision=regime or AS_FOUND.name, microbatch=microbatch),
        protocol=Protocol(
            min_rows=1,
            steady_s=how.steady_s,
            extend=0,
            repeats=1,
            retakes=0,
            isolate=False,
            telemetry_s=how.telemetry_s,
            ceilings=how.ceilings,
        ),
    )


def refuse_wrong(name: str, regime: str | None) -> None:
    """Raises BadInput (TL202) for a name that makes no folder, and (TL203) for a precision that training has not."""
    if not (name.isascii() and name.replace(".", "").replace("-", "").replace("_", "").isalnum()) or (
        not name[:1].isalnum() or len(name) > _LONGEST_NAME
    ):
        raise BadInput(
            f"the name {name!r} makes no folder; use letters, digits, dots, dashes and underscores", code="TL202"
        )
    if regime is not None:
        precision(regime).classes("training")


# What is said to the loop: a loss that is none, and warnings that never end it.


def no_number(loss: Any) -> str | None:
    """What was given in the place of a loss; None for a number and a tensor with one, whose value is read later."""
    try:
        if isinstance(sizes := getattr(loss, "shape", None), tuple):
            return None if math.prod(sizes) == 1 else f"a tensor of {'×'.join(map(str, sizes))}"
        float(loss)
    except Exception:  # of a number of somebody else's
        return "None" if loss is None else f"a {type(loss).__name__}"
    return None


def warn(text: str, level: int) -> None:
    """A warning, which never ends the loop: under `-W error` it is a line on stderr."""
    try:
        warnings.warn(text, stacklevel=level)
    except Exception:  # also of a `warnings.showwarning` of somebody's own
        with contextlib.suppress(Exception), warnings.catch_warnings():
            warnings.simplefilter("always")
            warnings.warn(text, stacklevel=level)
