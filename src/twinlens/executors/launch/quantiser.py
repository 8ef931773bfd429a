"""The Python with llm-compressor that a launcher may be given: its versions, and the folder that it makes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from twinlens.errors import BadInput, ExecutorFailed
from twinlens.executors.launch.interpreter import python_with
from twinlens.executors.launch.log import telling_line
from twinlens.executors.launch.model_folder import ModelFolder
from twinlens.executors.launch.recipe import gpu_environment
from twinlens.executors.protocol import Say
from twinlens.executors.quantise.folder import SCRIPT, quantised
from twinlens.record.executor.record import Fact
from twinlens.record.finding import Finding
from twinlens.spec.study import RunSpec

_PACKAGE = "llmcompressor"
_DECIDE = (_PACKAGE, "compressed-tensors", "torch", "transformers")
_OFFLINE = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "DO_NOT_TRACK": "1"}


@dataclass(frozen=True, slots=True)
class Given:
    """The folder that a server is given. `facts`: how it was quantised here, if it was; `findings`: what that took."""

    folder: ModelFolder
    facts: Mapping[str, Fact] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()


def versions_in(quantiser: str) -> Mapping[str, str]:
    """Versions of what decides the bytes of a folder. Raises BadInput: TL207 for no Python, TL217 for no package."""
    known = python_with(quantiser, _DECIDE, "quantiser").packages
    if _PACKAGE not in known:
        raise BadInput(
            f"{quantiser} has no {_PACKAGE}, which quantises the model: `make .venv-quantise/ready`, and name its "
            "interpreter in executor.options.quantiser",
            code="TL217",
        )
    return known


def quantised_by(quantiser: str, source: ModelFolder, spec: RunSpec, say: Say) -> Given:
    """The folder at the precision of the spec; the weights' hash stays that of the source.

    Raises BadInput as `versions_in`, and ExecutorFailed (TL302) where making it fails; nothing is kept then.
    """
    versions = tuple(f"{package} {version}" for package, version in sorted(versions_in(quantiser).items()))

    def compress(order: Mapping[str, Any]) -> None:
        say(f"quantising {spec.model.name} to {spec.point.precision} by llm-compressor (once)")
        _run(quantiser, order, gpu_environment(spec.device))

    made = quantised(source.path, source.digest, spec, versions, compress)
    return Given(ModelFolder(made.path, source.digest, source.made), made.facts, made.findings)


def _run(quantiser: str, order: Mapping[str, Any], chosen: Mapping[str, str]) -> None:
    python = str(Path(shutil.which(quantiser) or quantiser).absolute())  # a virtual environment's is a link
    with tempfile.TemporaryDirectory() as scratch:  # it writes a log where it is started
        done = subprocess.run(
            [python, "-I", str(SCRIPT)], input=json.dumps(order), capture_output=True, text=True, check=False,
            cwd=scratch, env={**os.environ, **_OFFLINE, **chosen},
        )  # fmt: skip
    if done.returncode or not (Path(order["folder"]) / "config.json").exists():
        raise ExecutorFailed(f"llm-compressor cannot quantise the model: {telling_line(done.stderr)}", code="TL302")
