"""The capabilities of training with DeepSpeed; nothing heavy is imported before a run is opened."""

from __future__ import annotations

from typing import TYPE_CHECKING

from twinlens.executors.capabilities import Capabilities, Executor
from twinlens.executors.torch.deepspeed.options import OPTIONS, PRECISIONS, degrees_of
from twinlens.executors.torch.deepspeed.python import INSTALL
from twinlens.spec.study import RunSpec

if TYPE_CHECKING:
    from twinlens.executors.protocol import Trainer


def _trainer() -> Trainer:
    from twinlens.executors.torch.deepspeed.options import ZeroOptions
    from twinlens.executors.torch.deepspeed.python import program_of
    from twinlens.executors.torch.parallel.trainer import ParallelTrainer, Stack

    return ParallelTrainer(Stack(ZeroOptions.of, degrees_of, program_of))


def _refuse_not_installed(spec: RunSpec) -> None:
    from twinlens.executors.torch.deepspeed.python import python_of

    python_of(spec)


EXECUTOR = Executor(
    Capabilities(
        families=("decoder",),
        precisions=PRECISIONS,
        settings=("device", "threads"),
        options=OPTIONS,
        computes_with="torch",
        packages=("deepspeed",),
        install=INSTALL,
        is_sized_by_theory=True,
        unasked=("reduce_bucket_size", "allgather_bucket_size", "stage3_param_persistence_threshold"),
    ),
    trainer=_trainer,
    degrees=degrees_of,
    refuse_not_installed=_refuse_not_installed,
)
