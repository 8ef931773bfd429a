"""The capabilities of parallel training; nothing heavy is imported before a run is opened."""

from __future__ import annotations

from typing import TYPE_CHECKING

from twinlens.executors.capabilities import Capabilities, Executor
from twinlens.executors.torch.options import LEAST_GPU
from twinlens.executors.torch.parallel.options import OPTIONS, PRECISIONS, degrees_of

if TYPE_CHECKING:
    from twinlens.executors.protocol import Trainer


def _trainer() -> Trainer:
    from twinlens.executors.torch.parallel.trainer import ParallelTrainer

    return ParallelTrainer()


EXECUTOR = Executor(
    Capabilities(
        families=("decoder",),
        precisions=PRECISIONS,
        least_gpu=LEAST_GPU,
        settings=("device", "threads"),
        options=OPTIONS,
        computes_with="torch",
        packages=("torch",),
        is_sized_by_theory=True,
    ),
    trainer=_trainer,
    degrees=degrees_of,
)
