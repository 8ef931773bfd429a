"""Training with DeepSpeed: its capabilities, its options and the degrees they stand for. Nothing heavy is imported."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Self

from twinlens.errors import BadInput
from twinlens.executors.capabilities import (
    Capabilities,
    Degrees,
    Executor,
    named,
    option,
    options_of,
    refuse_wrong_options,
)
from twinlens.executors.torch.entry import attention_option, compared_option, patience_option, ranks_option
from twinlens.executors.torch.parallel.entry import compared_model, microbatch_of
from twinlens.executors.torch.parallel.options import WHY_NOT
from twinlens.spec.study import RunSpec
from twinlens.spec.workload.workload import TrainingWorkload

KIND = "torch-deepspeed"
INSTALL = "pip install deepspeed==0.19.8 in a Python that has twinlens[torch], and name that in executor.options.python"
PRECISIONS = ("fp32", "bf16")


_OWN_BUCKET_BYTES = 5e8 * 4
"""DeepSpeed's own reduce bucket, of fp32 gradients."""
UNASKED = (
    "gradient_clipping 0",
    "zero_allow_untested_optimizer",
    "zero_force_ds_cpu_optimizer false",
    "torch_autocast as the precision says",
)
"""What `config_of` sets although nobody asked for it: no clipping (DeepSpeed clips to a norm of 1), torch's AdamW."""


@dataclass(frozen=True, slots=True)
class ZeroOptions:
    """The options of a spec, checked."""

    stage: Literal[0, 1, 2, 3] = option(
        2,
        description="ZeRO stage: ranks divide nothing (0), optimizer state (1), gradients too (2), weights too (3).",
        within=(0, 3),
    )
    offload: str = option(
        "none",
        ("none", "optimizer"),
        tunes=True,
        description="Whether optimizer state and the fp32 weights it updates lie in the host's memory.",
    )
    ranks: int = ranks_option()
    bucket_mib: float = option(
        0.0,
        tunes=True,
        description="MiB of each of DeepSpeed's reduce, allgather and prefetch buckets; 0: its own, which are 500 "
        "million elements (50 million to prefetch), and which stage 3 allocates at once.",
        within=(0, 1e6),
    )
    whole_below: int = option(
        100_000,
        tunes=True,
        description="Elements below which stage 3 leaves a parameter whole on every rank, as DeepSpeed does; 0: none.",
        within=(0, 1e12),
    )
    attention: str = attention_option()
    python: str = option("", description="The Python that has DeepSpeed and Twinlens installed; without it this one.")
    compared_steps: int = compared_option()
    patience_s: float = patience_option()

    parallel = "zero"
    split = 1

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> Self:
        """Raises BadInput (TL207)."""
        refuse_wrong_options(KIND, options, OPTIONS)
        if not isinstance(options.get("python", ""), str):
            raise BadInput("executor.options.python is the path of a Python", code="TL207")
        asked = cls(**options)
        if asked.stage == 0 and asked.offload != "none":
            raise BadInput(
                "ZeRO stage 0 keeps the optimizer whole, and DeepSpeed offloads it from stage 1 on; set "
                "executor.options.stage",
                code="TL202",
            )
        return asked

    @property
    def data(self) -> int:
        """Ranks that see different data: all of them."""
        return self.ranks


OPTIONS = options_of(ZeroOptions)


def degrees_of(spec: RunSpec) -> Degrees:
    """The degrees of a run. Raises BadInput (TL202, TL207) where the ranks do not divide the batch."""
    asked = ZeroOptions.of(spec.executor.options)
    microbatch = microbatch_of(spec, asked)  # type: ignore[arg-type]
    assert isinstance(spec.workload, TrainingWorkload)
    return Degrees(
        data=asked.ranks,
        zero=asked.stage,
        keeps_master=asked.stage > 0,
        buffers_bytes=(asked.bucket_mib * 2**20 or _OWN_BUCKET_BYTES) if asked.stage else 0.0,
        compared=compared_model(spec) if asked.compared_steps else None,
        microbatch=microbatch,
        microbatches=spec.workload.global_batch // (microbatch * asked.ranks),
    )


_ELEMENT = 4  # bytes of the widest element that a bucket takes


def config_of(asked: ZeroOptions, precision: str, microbatch: int, accumulate: int) -> dict[str, Any]:
    """DeepSpeed's own config. What nobody asked for stays as DeepSpeed has it, but for UNASKED."""
    zero: dict[str, Any] = {"stage": asked.stage}
    if asked.bucket_mib:
        elements = max(1, int(asked.bucket_mib * 2**20 / _ELEMENT))
        zero |= dict.fromkeys(("reduce_bucket_size", "allgather_bucket_size", "stage3_prefetch_bucket_size"), elements)
    if asked.whole_below != OPTIONS["whole_below"].default:
        zero["stage3_param_persistence_threshold"] = asked.whole_below
    if asked.offload == "optimizer":
        zero["offload_optimizer"] = {"device": "cpu"}
    config: dict[str, Any] = {
        "train_micro_batch_size_per_gpu": microbatch,
        "gradient_accumulation_steps": accumulate,
        "gradient_clipping": 0.0,  # DeepSpeed's own default is a norm of 1, which no other executor here clips to
        "zero_optimization": zero,
        "zero_allow_untested_optimizer": True,
        "zero_force_ds_cpu_optimizer": False,  # torch's AdamW, as every executor here: no kernel of DeepSpeed's own
        "steps_per_print": 10**9,  # it prints, and says nothing that is measured
    }
    if precision == "bf16":
        config["torch_autocast"] = {"enabled": True, "dtype": "bfloat16"}
    return config


def _trainer() -> Any:
    stack = named("twinlens.executors.torch.parallel.trainer:Stack")
    zero = stack(ZeroOptions.of, degrees_of, named("twinlens.executors.torch.deepspeed.program:program_of"))
    return named("twinlens.executors.torch.parallel.trainer:ParallelTrainer")(zero)


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
    refuse_not_installed=named("twinlens.executors.torch.deepspeed.program:python_of"),
)
