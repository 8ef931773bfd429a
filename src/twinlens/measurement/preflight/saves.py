"""Saves and kills that a spec asks for: refused where the executor cannot, or the storage is not there."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from twinlens.errors import BadInput
from twinlens.executors.registry import capabilities
from twinlens.spec.study import RunSpec
from twinlens.spec.workload.workload import TrainingWorkload
from twinlens.system.home_folder import as_tilde
from twinlens.theory.parameter import parameters
from twinlens.units import show

_BYTES_PER_PARAMETER, _KEPT, _SPARE = 12, 2, 1.1  # fp32 weights and two moments; two saves are kept


def refuse_saves(spec: RunSpec) -> None:
    """Raises BadInput (TL202) for a save that cannot be made, and for a kill that nothing could recover from."""
    workload, kill, can = spec.workload, spec.protocol.kill, capabilities(spec.executor.kind)
    asked = workload.checkpoint if isinstance(workload, TrainingWorkload) else None
    if asked is not None and not can.saves_state:
        raise BadInput(
            f"workload.checkpoint is set, and {spec.executor.kind} does not save while it trains; leave it out or take "
            "torch or torch-parallel",
            code="TL202",
        )
    if asked is not None and spec.executor.options.get("parallel") == "pp":
        raise BadInput("stages of a pipeline are not saved yet; leave out workload.checkpoint", code="TL202")
    if asked is not None and spec.executor.options.get("on"):
        raise BadInput("ranks on a cluster are not saved yet; leave out workload.checkpoint", code="TL202")
    if kill is not None and not can.restarts_ranks:
        raise BadInput(
            f"protocol.kill kills a rank, and {spec.executor.kind} has none to start again; leave it out or take "
            "torch-parallel",
            code="TL202",
        )
    if kill is not None and asked is None:
        raise BadInput("protocol.kill needs saves to recover from; add workload.checkpoint.every_steps", code="TL202")
    ranks = spec.executor.options.get("ranks", 2)
    if kill is not None and isinstance(ranks, int) and kill.rank >= ranks:
        raise BadInput(f"protocol.kill.rank {kill.rank} is none of {ranks} ranks, which begin at 0", code="TL202")
    if (asked is not None or kill is not None) and spec.protocol.pairing == "slices":
        raise BadInput('saves and kills have no place in turns; leave out protocol.pairing = "slices"', code="TL202")
    if asked is not None:
        _refuse_storage(spec, asked.folder)


def _refuse_storage(spec: RunSpec, asked: str | None) -> None:
    parent = Path(asked or tempfile.gettempdir()).expanduser()
    named = as_tilde(str(parent))
    if not parent.is_dir() or not os.access(parent, os.W_OK):
        why = "cannot be written" if parent.is_dir() else "is no folder"
        raise BadInput(f"workload.checkpoint.folder {named!r} {why}; name one that can be", code="TL202")
    shape = spec.model.shape
    if shape is None:
        return
    needed = _SPARE * _KEPT * _BYTES_PER_PARAMETER * parameters(shape).total
    free = shutil.disk_usage(parent).free
    if free < needed:
        raise BadInput(
            f"two saves need {show(needed, 'bytes')}, and {named!r} has {show(float(free), 'bytes')} free; name "
            "another as workload.checkpoint.folder",
            code="TL202",
        )
