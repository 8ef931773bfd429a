"""A trainer by the lines of its log, whoever started it. Tested on lines of real logs: none of these trainers runs
without a GPU, and none was at hand.
"""

from __future__ import annotations

import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

from twinlens.errors import BadInput
from twinlens.executors.capabilities import ALL_FAMILIES, Capabilities, Executor, Option, named
from twinlens.spec.study import RunSpec
from twinlens.spec.workload.workload import Method

FORMATS = ("megatron", "torchtitan", "torchtitan-spans", "nemo", "nemo-automodel")
OPTIONS: Mapping[str, Option] = {
    "log": Option(
        "",
        description="The file to which the trainer writes its lines; with a command, where they are not in its output.",
    ),
    "command": Option(
        (),
        type="list of words",
        description="Your own command, which the run starts without a shell and whose lines it reads as they come.",
    ),
    "follow_s": Option(
        0.0,
        within=(0, 1e6),
        description="Seconds of silence after which a log that is still written counts as ended; 0: it is whole, and "
        "read once.",
    ),
    "format": Option(FORMATS[0], FORMATS, description="The trainer that wrote the log."),
    "tokens_per_step": Option(
        0,
        within=(0, 2**53),
        description="Tokens of one optimizer step on all devices, where the log does not say them: "
        "workload.global_batch × workload.seq_len. 0 for images.",
    ),
}


def log_of(options: Mapping[str, Any]) -> Path:
    """The log that is read. Raises BadInput (TL207) where it is not there."""
    asked = options.get("log")
    if not isinstance(asked, str) or not asked:
        raise BadInput('trainer-log needs the log: --set executor.options.log="train.log"', code="TL207")
    path = Path(asked).expanduser()
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise BadInput(f"executor.options.log: {asked} is no file; give the file that holds the log", code="TL207")
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise BadInput(f"executor.options.log: {asked} cannot be read ({why}); give its path", code="TL207") from None
    return path


def _refuse_absent(spec: RunSpec) -> None:
    from twinlens.executors.trainer_log.live import command_of

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
    trainer=named("twinlens.executors.trainer_log.log_trainer:LogTrainer"),
    refuse_not_installed=_refuse_absent,
)
