"""The capabilities of training with DeepSpeed; nothing heavy is imported before a run is opened."""

from __future__ import annotations

from typing import TYPE_CHECKING

from twinlens.executors.capabilities import Capabilities, Executor
from twinlens.executors.torch.deepspeed.options import OPTIONS, PRECISIONS, UNASKED, degrees_of
from twinlens.executors.torch.deepspeed.program import INSTALL
from twinlens.executors.torch.parallel.options import WHY_NOT
from twinlens.spec.study import RunSpec

if TYPE_CHECKING:
    from twinlens.executors.protocol import Trainer


def _trainer() -> Trainer:
    from twinlens.executors.torch.deepspeed.options import ZeroOptions
    from twinlens.executors.torch.deepspeed.program import program_of
    from twinlens.executors.torch.parallel.trainer import ParallelTrainer, Stack

    return ParallelTrainer(Stack(ZeroOptions.of, degrees_of, program_of))


def _refuse_not_installed(spec: RunSpec) -> None:
    from twinlens.executors.torch.deepspeed.program import python_of

    python_of(spec)


EXECUTOR = Executor(
    Capabilities(
        families=("decoder",),
        precisions=PRECISIONS,
        why_not=WHY_NOT,
        settings=("device", "threads"),
        options=OPTIONS,
        computes_with="torch",
        packages=("deepspeed",),
        beside=".venv-hosts",
        install=INSTALL,
        is_sized_by_theory=True,
        unasked=UNASKED,
    ),
    trainer=_trainer,
    degrees=degrees_of,
    refuse_not_installed=_refuse_not_installed,
)
