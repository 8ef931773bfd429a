"""A quantised model folder: made once beside the cache's other exports, by a Python that has llm-compressor."""

from __future__ import annotations

import hashlib
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
from twinlens.executors.in_process.export import Export, exported
from twinlens.executors.launch.interpreter import python_with
from twinlens.executors.launch.log import telling_line
from twinlens.executors.launch.model_folder import ModelFolder
from twinlens.executors.launch.recipe import gpu_environment
from twinlens.executors.protocol import Say
from twinlens.executors.quantise.plan import PLANS, order_for
from twinlens.executors.quantise.prompts import Calibration, calibration_of
from twinlens.record.executor.record import Fact, declared, observed
from twinlens.record.finding import Finding
from twinlens.spec.study import RunSpec

_FORMAT = 1  # of what is made: another number, and all is made again
_SCRIPT = Path(__file__).with_name("compress.py")
_PACKAGE = "llmcompressor"
_DECIDE = (_PACKAGE, "compressed-tensors", "torch", "transformers")
_NOT_COPIED = (".safetensors", ".index.json", ".bin", ".pt", ".pth", ".py", ".gguf")


@dataclass(frozen=True, slots=True)
class Made:
    """A folder as a server is given it. `facts`: how it was quantised here, if it was; `findings`: what that took."""

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


def quantised(source: ModelFolder, spec: RunSpec, quantiser: str, say: Say) -> Made:
    """The folder at the precision of the spec, whose weights' hash stays that of the source.

    Raises BadInput as `versions_in`, and ExecutorFailed (TL302) where making it fails; nothing is kept then.
    """
    name, known = spec.point.precision, versions_in(quantiser)
    plan = PLANS[name]
    prompts = calibration_of(spec) if plan.calibrates else None
    versions = [f"{package} {version}" for package, version in sorted(known.items())]

    def make(folder: Path) -> None:
        say(f"quantising {spec.model.name} to {name} by llm-compressor (once)")
        _compress(order(source.path, folder, name, prompts), quantiser, gpu_environment(spec.device))
        for file in beside(source.path):
            if not (folder / file.name).exists():
                shutil.copyfile(file, folder / file.name)

    named = f"{Path(spec.model.name).stem}-{name}-{identity(source, name, prompts, versions)}"
    export = exported("llm-compressor", named, make)
    return Made(
        ModelFolder(export.path, source.digest, source.made),
        _facts(plan.method, versions, prompts),
        (_finding(export),),
    )


def order(source: Path, folder: Path, name: str, prompts: Calibration | None) -> dict[str, Any]:
    """The order that the process of the compressor is given."""
    length, texts, ids = (prompts.length, prompts.texts, prompts.ids) if prompts else (0, (), ())
    places = {"source": str(source.absolute()), "folder": str(folder.absolute())}
    return {**places, "length": length, "texts": texts, "ids": ids, **order_for(name)}


def identity(source: ModelFolder, name: str, prompts: Calibration | None, versions: list[str]) -> str:
    """All that decides the bytes of the folder, as 16 hex digits."""
    files = [[file.name, hashlib.sha256(file.read_bytes()).hexdigest()] for file in beside(source.path)]
    decides = [_FORMAT, source.digest, files, order_for(name), prompts.said if prompts else "", versions]
    return hashlib.sha256(json.dumps(decides, sort_keys=True).encode()).hexdigest()[:16]


def beside(folder: Path) -> list[Path]:
    """Files of a model folder that are no weights and no code: its config, tokenizer and template."""
    own = ("twinlens-weights.json", "twinlens-export.json")
    files = (path for path in sorted(folder.iterdir()) if path.is_file() and path.name not in own)
    return [path for path in files if not path.name.endswith(_NOT_COPIED) and not path.name.startswith(".")]


def _compress(ordered: Mapping[str, Any], quantiser: str, chosen: Mapping[str, str]) -> None:
    offline = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "DO_NOT_TRACK": "1"}
    python = str(Path(shutil.which(quantiser) or quantiser).absolute())  # a virtual environment's is a link
    with tempfile.TemporaryDirectory() as scratch:  # it writes a log where it is started
        done = subprocess.run(
            [python, "-I", str(_SCRIPT)], input=json.dumps(ordered), capture_output=True, text=True, check=False,
            cwd=scratch, env={**os.environ, **offline, **chosen},
        )  # fmt: skip
    if done.returncode or not (Path(ordered["folder"]) / "config.json").exists():
        raise ExecutorFailed(f"llm-compressor cannot quantise the model: {telling_line(done.stderr)}", code="TL302")


def _facts(method: str, versions: list[str], prompts: Calibration | None) -> dict[str, Fact]:
    by = f"{method}, by {', '.join(versions)}; embedding and output layer are not quantised"
    return {
        "precision.method": declared(by, "llm-compressor"),
        "precision.calibration": observed(prompts.said, "its prompts")
        if prompts
        else declared("none", "rounding needs no data"),
    }


def _finding(export: Export) -> Finding:
    return Finding("exported", "notes", "", {"seconds": export.seconds, "size_bytes": export.size_bytes})
