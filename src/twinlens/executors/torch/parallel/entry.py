"""The capabilities of parallel training; nothing heavy is imported before a run is opened."""

from __future__ import annotations

from typing import TYPE_CHECKING

from twinlens.executors.capabilities import Capabilities, Executor
from twinlens.executors.torch.options import LEAST_GPU
from twinlens.executors.torch.parallel.degrees import degrees_of
from twinlens.executors.torch.parallel.options import OPTIONS, PRECISIONS, WHY_NOT

if TYPE_CHECKING:
    from twinlens.executors.in_process.collective import Collectives
    from twinlens.executors.protocol import Say, Trainer


def _trainer() -> Trainer:
    from twinlens.executors.torch.parallel.trainer import ParallelTrainer

    return ParallelTrainer()


def _collectives(device: str, ranks: int | None, say: Say) -> Collectives:
    from twinlens.executors.torch.parallel.collectives import probe_collectives

    return probe_collectives(device, ranks, say)


EXECUTOR = Executor(
    Capabilities(
        families=("decoder",),
        precisions=PRECISIONS,
        why_not=WHY_NOT,
        least_gpu=LEAST_GPU,
        settings=("device", "threads"),
        options=OPTIONS,
        computes_with="torch",
        packages=("torch",),
        is_sized_by_theory=True,
        saves_state=True,
        restarts_ranks=True,
    ),
    trainer=_trainer,
    degrees=degrees_of,
    collectives=_collectives,
)
