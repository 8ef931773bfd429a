"""`[executor.options]` of trainer-log."""

from __future__ import annotations

from collections.abc import Mapping

from twinlens.executors.capabilities import Option

FORMATS = ("megatron", "torchtitan", "torchtitan-spans", "nemo", "nemo-automodel")
OPTIONS: Mapping[str, Option] = {
    "log": Option("", description="The file to which the trainer wrote its lines."),
    "format": Option(FORMATS[0], FORMATS, description="The trainer that wrote the log."),
    "tokens_per_step": Option(
        0,
        description="Tokens of one optimizer step on all devices, where the log does not say them: "
        "workload.global_batch × workload.seq_len. 0 for images.",
    ),
}
