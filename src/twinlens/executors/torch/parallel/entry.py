"""The capabilities of parallel training; nothing heavy is imported before a run is opened."""

from __future__ import annotations

from shutil import which
from typing import TYPE_CHECKING

from twinlens.errors import BadInput
from twinlens.executors.capabilities import Capabilities, Executor
from twinlens.executors.refuse import is_installed
from twinlens.executors.torch.options import LEAST_GPU
from twinlens.executors.torch.parallel.degrees import degrees_of
from twinlens.executors.torch.parallel.options import OPTIONS, PRECISIONS, WHY_NOT
from twinlens.spec.study import RunSpec

if TYPE_CHECKING:
    from twinlens.executors.in_process.ceiling import Collectives
    from twinlens.executors.protocol import Say, Trainer

_PACKAGES = ("torch",)


def _trainer() -> Trainer:
    from twinlens.executors.torch.parallel.trainer import ParallelTrainer

    return ParallelTrainer()


def _collectives(device: str, ranks: int | None, say: Say) -> Collectives:
    from twinlens.executors.torch.parallel.exchanger import probe_collectives

    return probe_collectives(device, ranks, say)


def _refuse_not_installed(spec: RunSpec) -> None:
    if not is_installed(_PACKAGES):
        raise BadInput("torch-parallel is not installed: pip install 'twinlens[torch]'", code="TL207")
    if spec.executor.options.get("numa") == "node" and which("numactl") is None:
        raise BadInput(
            'executor.options.numa = "node" takes numactl, which is not installed here: install it with the system\'s '
            "packages, or leave the option out",
            code="TL207",
        )


EXECUTOR = Executor(
    Capabilities(
        families=("decoder",),
        precisions=PRECISIONS,
        why_not=WHY_NOT,
        least_gpu=LEAST_GPU,
        settings=("device", "threads"),
        options=OPTIONS,
        computes_with="torch",
        packages=_PACKAGES,
        is_sized_by_theory=True,
        saves_state=True,
        restarts_ranks=True,
    ),
    trainer=_trainer,
    degrees=degrees_of,
    collectives=_collectives,
    refuse_not_installed=_refuse_not_installed,
)
