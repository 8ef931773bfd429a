"""A trainer by the lines of its log, whoever started it. Tested on lines of real logs: none of these trainers runs
without a GPU, and none was at hand.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, get_args

from twinlens.executors.capabilities import ALL_FAMILIES, Capabilities, Executor
from twinlens.executors.trainer_log.options import OPTIONS, log_of
from twinlens.spec.workload.workload import Method

if TYPE_CHECKING:
    from twinlens.executors.protocol import Trainer
    from twinlens.spec.study import RunSpec


def _trainer() -> Trainer:
    from twinlens.executors.trainer_log.log_trainer import LogTrainer

    return LogTrainer()


def _refuse_absent(spec: RunSpec) -> None:
    from twinlens.executors.trainer_log.command import command_of

    if not command_of(spec.executor.options):
        log_of(spec.executor.options)


EXECUTOR = Executor(
    Capabilities(
        runs="recorded",
        here_with="command",
        families=ALL_FAMILIES,
        methods=dict.fromkeys(get_args(Method), ()),
        takes_any_type=True,
        options=OPTIONS,
        tried=False,
    ),
    trainer=_trainer,
    refuse_not_installed=_refuse_absent,
)
