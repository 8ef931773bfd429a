"""A trainer that somebody else started, by the lines of its log. Tested on lines of real logs: none of these trainers
runs without a GPU, and none was at hand.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, get_args

from twinlens.executors.capabilities import ALL_FAMILIES, Capabilities, Executor
from twinlens.executors.trainer_log.options import OPTIONS
from twinlens.spec.workload.adapter import Method

if TYPE_CHECKING:
    from twinlens.executors.protocol import Trainer


def _trainer() -> Trainer:
    from twinlens.executors.trainer_log.log_trainer import LogTrainer

    return LogTrainer()


EXECUTOR = Executor(
    Capabilities(
        runs="recorded",
        families=ALL_FAMILIES,
        methods=dict.fromkeys(get_args(Method), ()),
        takes_any_type=True,
        options=OPTIONS,
        tried=False,
    ),
    trainer=_trainer,
)
