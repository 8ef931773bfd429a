"""A quantised model folder: made once beside the cache's other exports, and known by all that decides its bytes."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from twinlens.executors.in_process.export import exported
from twinlens.executors.in_process.inputs import LONGEST, OWN_STREAM, PROMPTS, calibration_prompts, prompts_said
from twinlens.executors.quantise.plan import PLANS, order_for
from twinlens.record.executor.record import Fact, declared, observed
from twinlens.record.finding import Finding
from twinlens.schedule.prompt import words_of
from twinlens.spec.study import RunSpec
from twinlens.spec.workload.prompt import PromptFile
from twinlens.spec.workload.workload import InferenceWorkload


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


SCRIPT = Path(__file__).with_name("compress.py")
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
