"""DeepSpeed's own config, from the options of a spec. Pure."""

from __future__ import annotations

from typing import Any

from twinlens.executors.torch.deepspeed.options import OPTIONS, ZeroOptions

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
