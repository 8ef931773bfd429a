"""Remedies that a run has in use already, so that nobody is told to try them: by their key, with their value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from twinlens.record.run import Run
from twinlens.spec.precision import AS_SERVED

_WIDE = {"fp32", "tf32", AS_SERVED.name}
_WIDE_KV = {"fp32", "fp16", "bf16"}


def in_use(run: Run) -> dict[str, Any]:
    """ "compiled", "narrow" (the precision), "kv-format", "batch", "accumulation" (parts), "recompute", "threads" and
    "workers" (of a data loader): those that this run was asked for, or that its record shows."""
    spec, facts = run.spec, run.facts.executor if run.facts else None
    options = spec.executor.options
    kv = facts.value("precision.kv") if facts else None
    cores = facts.value("host.cpu.usable_threads") if facts else None
    training = spec.workload.kind == "training"
    whole = spec.workload.global_batch if spec.workload.kind == "training" else None
    part = (spec.point.microbatch or whole) if whole else None
    batch = part if training else spec.point.batch
    found: dict[str, Any] = {
        "compiled": options.get("graph") == "compiled" or (facts.value("serving.graphs") == "captured" if facts else 0),
        "narrow": None if spec.point.precision in _WIDE else spec.point.precision,
        "kv-format": kv if isinstance(kv, str) and kv not in _WIDE_KV else None,
        "batch": batch if batch and batch > 1 else None,
        "accumulation": whole // part if whole and part and whole > part else None,
        "recompute": training and getattr(spec.workload, "checkpointing", False),
        "threads": spec.executor.threads if cores and (spec.executor.threads or 0) >= int(cores) else None,
        "workers": _workers(options),
    }
    return {key: value for key, value in found.items() if value}


def _workers(options: Mapping[str, Any]) -> int | None:
    """Workers of a data loader, by what executors call them."""
    named = (options.get(name) for name in ("workers", "num_workers", "dataloader_num_workers"))
    return next((int(each) for each in named if isinstance(each, int) and each > 0), None)
