"""Work that torch does for another engine, in a process of its own: weights, fp32 reference, random images, ceilings.

The engine's process stays without torch, its threads and its memory.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from twinlens.errors import BadInput
from twinlens.executors.in_process.export import run_apart
from twinlens.record.executor.facts import Estimates, ceilings_of
from twinlens.spec.study import RunSpec
from twinlens.system.document import read_json

Linear = tuple[int, int, str]
"""(out, in, stored format) of one linear layer."""
_RUN = "from twinlens.executors.torch.for_others import main; main()"


@dataclass(frozen=True, slots=True)
class TorchWork:
    """`reference`: fp32 log probabilities, (prompts, positions, vocabulary) or (images, 1, classes). `support`: format
    to "native" or "emulated" on this processor. `version`: of torch."""

    reference: np.ndarray | None
    ceilings: Estimates
    support: Mapping[str, str]
    version: str


def write_weights(spec: RunSpec, folder: Path) -> None:
    """The model as a Hugging Face folder in fp32, the same weights that the torch executor would run."""
    _ask(spec, {"weights": str(folder)})


def random_images(spec: RunSpec) -> np.ndarray:
    """(count, channels, size, size) fp32, the same that the torch executor would classify."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "images.npy"
        _ask(spec, {"images": str(path)})
        loaded: np.ndarray = np.load(path, allow_pickle=False)
        return loaded


def measure_beside(spec: RunSpec, sample: np.ndarray | None, linears: Sequence[Linear], threads: int) -> TorchWork:
    """The fp32 reference of the sample, and the ceilings at the run's precision where the protocol wants them."""
    with tempfile.TemporaryDirectory() as folder:
        given, made = Path(folder) / "sample.npy", Path(folder) / "reference.npy"
        asked: dict[str, Any] = {"threads": threads, "linears": linears if spec.protocol.ceilings else None}
        if sample is not None:
            np.save(given, sample)
            asked |= {"sample": str(given), "reference": str(made)}
        answer = _ask(spec, asked)
        reference = np.load(made, allow_pickle=False) if sample is not None else None
    return TorchWork(reference, ceilings_of(answer["ceilings"]), answer["support"], answer["version"])


def ceilings_again(spec: RunSpec, threads: int) -> Estimates:
    """The ceilings that shares are made with, once more; empty where none were measured before."""
    if not spec.protocol.ceilings:
        return {}
    return ceilings_of(_ask(spec, {"threads": threads, "again": True})["ceilings"])


def _ask(spec: RunSpec, asked: Mapping[str, Any]) -> dict[str, Any]:
    """Raises BadInput or ExecutorFailed (TL302) with what the process said."""
    order = {"spec": spec.to_dict(), **asked}
    said: dict[str, Any] = answer_of_torch(order, "torch could not prepare the model")
    if "refused" in said:
        raise BadInput(said["refused"], code=said["code"])
    return said


def answer_of_torch(order: Mapping[str, Any], failed: str, timeout_s: float | None = None) -> Any:
    """The answer to an order (executors/torch/for_others.py). Raises as `run_apart`."""
    with tempfile.TemporaryDirectory() as folder:
        answer = Path(folder) / "answer.json"
        run_apart(["-c", _RUN], failed, {**order, "answer": str(answer)}, answer, timeout_s)
        return read_json(answer)
