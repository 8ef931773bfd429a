"""The fp32 reference of a model folder, computed by torch in a process of its own and kept in the cache."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from twinlens.executors.fidelity.answer import Answer, from_pieces
from twinlens.executors.fidelity.scored import Scored, Unusable
from twinlens.executors.launch.log import telling_line
from twinlens.system.document import read_json
from twinlens.system.home_folder import cache_folder
from twinlens.units import BYTES, show

_RUN = "from twinlens.executors.torch.for_servers import main; main()"
_FORMAT = 1  # of what is kept: another number, and all is computed again
_MOST_OF, _PATIENCE_S = 0.8, 1800.0


def scores_of(folder: Path, prompts: Sequence[Sequence[int]], top: int, threads: int) -> list[Scored]:
    """Log probabilities of prompts by the folder's weights in fp32. Raises Unusable."""
    told = _computed(folder, {"scores": [list(each) for each in prompts], "top": top}, threads)
    return [
        Scored(tuple(prompt), tuple({int(token): value for token, value in place} for place in places))
        for prompt, places in zip(prompts, told, strict=True)
    ]


def answers_of(folder: Path, prompts: Sequence[str], most_tokens: int, threads: int) -> list[Answer]:
    """Greedy answers by the folder's weights in fp32. Raises Unusable."""
    told = _computed(folder, {"answers": list(prompts), "most_tokens": most_tokens}, threads)
    return [from_pieces(each["beginnings"], cut=each["cut"], prompt_tokens=each["prompt_tokens"]) for each in told]


def _computed(folder: Path, asked: dict[str, Any], threads: int) -> list[Any]:
    """What the process said, or what it said before of the same weights and prompts."""
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        raise Unusable("the folder has no safetensors")
    stamps = [(file.name, file.stat().st_size, file.stat().st_mtime_ns) for file in files]
    identity = json.dumps([_FORMAT, str(folder), stamps, asked], sort_keys=True)
    kept = cache_folder() / "fidelity" / f"{hashlib.sha256(identity.encode()).hexdigest()[:24]}.json"
    with suppress(OSError, ValueError):
        known: list[Any] = read_json(kept)
        return known
    _refuse_large(folder, sum(size for _, size, _ in stamps))
    told = _asked(folder, asked, threads)
    with suppress(OSError):
        kept.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=kept.parent, delete=False, encoding="utf-8") as file:
            json.dump(told, file)
        Path(file.name).rename(kept)
    return told


def _refuse_large(folder: Path, stored: int) -> None:
    config = read_json(folder / "config.json")
    is_wide = "float32" in str(config.get("dtype", config.get("torch_dtype", "")))
    needed, free = stored * (1 if is_wide else 2), psutil.virtual_memory().available
    if needed > _MOST_OF * free:
        raise Unusable(
            f"the fp32 reference needs {show(float(needed), BYTES)} and this machine has {show(float(free), BYTES)} "
            "free; name a reference server in executor.options.reference"
        )


def _asked(folder: Path, asked: dict[str, Any], threads: int) -> list[Any]:
    with tempfile.TemporaryDirectory() as scratch:
        answer = Path(scratch) / "answer.json"
        order = json.dumps({"folder": str(folder), "threads": threads, "answer": str(answer), **asked})
        try:
            done = subprocess.run(
                [sys.executable, "-c", _RUN], input=order, capture_output=True, text=True, check=False,
                timeout=_PATIENCE_S,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise Unusable(f"the fp32 reference took more than {_PATIENCE_S:g} s") from None
        if done.returncode or not answer.exists():
            raise Unusable(f"the fp32 reference could not be computed: {telling_line(done.stderr)}")
        said = read_json(answer)
    if isinstance(said, dict):
        raise Unusable(f"the fp32 reference could not be computed: {said['refused']}")
    told: list[Any] = said
    return told
