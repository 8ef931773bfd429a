"""The spec of a loop that nobody asked for in a file: what can be said of it before and after its first step."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from twinlens.errors import BadInput
from twinlens.spec.point import Point
from twinlens.spec.precision import AS_FOUND, precision
from twinlens.spec.protocol import Protocol
from twinlens.spec.study import ExecutorSpec, RunSpec
from twinlens.spec.workload.workload import Own, TrainingWorkload

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
