"""A quantised model folder: made once by the Python with llm-compressor, and known by all that decides its bytes."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from twinlens.errors import BadInput, ExecutorFailed
from twinlens.executors.in_process.export import exported
from twinlens.executors.in_process.inputs import LONGEST, OWN_STREAM, PROMPTS, calibration_prompts, prompts_said
from twinlens.executors.launch.interpreter import python_with
from twinlens.executors.launch.model_folder import ModelFolder
from twinlens.executors.launch.recipe import gpu_environment
from twinlens.executors.protocol import Say
from twinlens.executors.quantise.plan import PLANS, order_for
from twinlens.record.executor.record import Fact, declared, observed
from twinlens.record.finding import Finding
from twinlens.schedule.prompt import words_of
from twinlens.spec.study import RunSpec
from twinlens.spec.workload.prompt import PromptFile
from twinlens.spec.workload.workload import InferenceWorkload
from twinlens.system.log import telling_line


@dataclass(frozen=True, slots=True)
class Calibration:
    """`texts` or `ids`: one entry a prompt, of `length` tokens (of a text: at most). `said`: one phrase for the record,
    with their number, length, origin and sha256."""

    length: int
    said: str
    texts: tuple[str, ...] = ()
    ids: tuple[tuple[int, ...], ...] = ()


def calibration_of(spec: RunSpec) -> Calibration:
    """The same for every repeat, and of no run. Real text where the workload names a file of prompts: its tokens are
    made by the model's own tokenizer. Raises BadInput (TL209, TL213) for data that cannot be read."""
    workload = spec.workload
    assert isinstance(workload, InferenceWorkload)
    length = length_of(workload)
    if isinstance(workload.prompts, PromptFile):
        words = words_of(workload.prompts)
        texts = tuple(words.cut((OWN_STREAM, place), length) for place in range(PROMPTS))
        digest = hashlib.sha256("\n".join(texts).encode()).hexdigest()[:16]
        origin = f"of at most {length} tokens cut from the workload's file of prompts"
        return Calibration(length, f"{PROMPTS} prompts {origin}, seed {OWN_STREAM}, sha256 {digest}", texts=texts)
    ids = tuple(tuple(row) for row in calibration_prompts(spec).tolist())
    return Calibration(length, prompts_said(spec), ids=ids)


def length_of(workload: InferenceWorkload) -> int:
    """Tokens of a calibration prompt."""
    return min(LONGEST, workload.input_tokens.max)


def decided_by(spec: RunSpec) -> list[Any]:
    """What of a spec decides the quantised folder of its model, without making its prompts."""
    workload = spec.workload
    assert isinstance(workload, InferenceWorkload)
    words = (workload.data.model_dump(mode="json"), workload.prompts.model_dump(mode="json"))
    return [spec.point.precision, *words, length_of(workload)]


SCRIPT = Path(__file__).parent.with_name("quantise") / "compress.py"
"""What a Python with llm-compressor runs, with an order on its input."""
_FORMAT = 1  # of what is made: another number, and all is made again
_NOT_COPIED = (".safetensors", ".index.json", ".bin", ".pt", ".pth", ".py", ".gguf")


@dataclass(frozen=True, slots=True)
class Quantised:
    """`facts`: how it was made, for the record; `findings`: what it took, once."""

    path: Path
    facts: Mapping[str, Fact]
    findings: tuple[Finding, ...]


def quantised(
    source: Path, digest: str, spec: RunSpec, versions: Sequence[str], compress: Callable[[Mapping[str, Any]], None]
) -> Quantised:
    """The cached folder at the precision of the spec, or a new one that `compress` fills by an order.

    `digest`: of the source's weights. Raises what `compress` raises, and nothing is kept then.
    """
    name = spec.point.precision
    plan = PLANS[name]
    prompts = calibration_of(spec) if plan.calibrates else None

    def make(folder: Path) -> None:
        compress(order(source, folder, name, prompts))
        for file in beside(source):
            if not (folder / file.name).exists():
                shutil.copyfile(file, folder / file.name)

    named = f"{Path(spec.model.name).stem}-{name}-{identity(source, digest, name, prompts, versions)}"
    export = exported("llm-compressor", named, make)
    numbers = {"seconds": export.seconds, "size_bytes": export.size_bytes}
    return Quantised(export.path, _facts(plan.method, versions, prompts), (Finding("exported", "notes", "", numbers),))


def order(source: Path, folder: Path, name: str, prompts: Calibration | None) -> dict[str, Any]:
    """The order that the process of the compressor is given."""
    length, texts, ids = (prompts.length, prompts.texts, prompts.ids) if prompts else (0, (), ())
    places = {"source": str(source.absolute()), "folder": str(folder.absolute())}
    return {**places, "length": length, "texts": texts, "ids": ids, **order_for(name)}


def identity(source: Path, digest: str, name: str, prompts: Calibration | None, versions: Sequence[str]) -> str:
    """All that decides the bytes of the folder, as 16 hex digits."""
    files = [[file.name, hashlib.sha256(file.read_bytes()).hexdigest()] for file in beside(source)]
    decides = [_FORMAT, digest, files, order_for(name), prompts.said if prompts else "", list(versions)]
    return hashlib.sha256(json.dumps(decides, sort_keys=True).encode()).hexdigest()[:16]


def beside(folder: Path) -> list[Path]:
    """Files of a model folder that are no weights and no code: its config, tokenizer and template."""
    own = ("twinlens-weights.json", "twinlens-export.json")
    files = (path for path in sorted(folder.iterdir()) if path.is_file() and path.name not in own)
    return [path for path in files if not path.name.endswith(_NOT_COPIED) and not path.name.startswith(".")]


def _facts(method: str, versions: Sequence[str], prompts: Calibration | None) -> dict[str, Fact]:
    by = f"{method}, by {', '.join(versions)}; embedding and output layer are not quantised"
    return {
        "precision.method": declared(by, "llm-compressor"),
        "precision.calibration": observed(prompts.said, "its prompts")
        if prompts
        else declared("none", "rounding needs no data"),
    }


# The Python with llm-compressor that a launcher may be given: its versions, and the folder that it makes.

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
