"""The capabilities of parallel training; nothing heavy is imported before a run is opened."""

from __future__ import annotations

from shutil import which

from twinlens.errors import BadInput
from twinlens.executors.capabilities import Capabilities, Executor, named
from twinlens.executors.refuse import is_installed
from twinlens.executors.torch.options import LEAST_GPU
from twinlens.executors.torch.parallel.degrees import degrees_of
from twinlens.executors.torch.parallel.options import OPTIONS, PRECISIONS, WHY_NOT
from twinlens.spec.study import RunSpec

_PACKAGES = ("torch",)


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
    trainer=named("twinlens.executors.torch.parallel.trainer:ParallelTrainer"),
    degrees=degrees_of,
    collectives=named("twinlens.executors.torch.parallel.exchanger:probe_collectives"),
    refuse_not_installed=_refuse_not_installed,
)
