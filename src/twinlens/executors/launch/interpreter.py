"""Packages of another Python, listed by that Python: the server's environment is not ours."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from twinlens.errors import BadInput
from twinlens.executors.launch.recipe import Recipe
from twinlens.spec.device import AskedDevice

_ALWAYS = (
    *("torch", "transformers", "tokenizers", "safetensors", "numpy", "accelerate", "triton", "flash-attn"),
    *("flashinfer-python", "uvicorn", "fastapi", "uvloop", "httptools"),
)  # fmt: skip
_PLACES = {"cpu": "the processor", "cuda": "GPUs"}
ANY = AskedDevice("auto")
_ASK = """
import json, platform, sys
from importlib.metadata import PackageNotFoundError, version
found = {}
for name in json.loads(sys.argv[1]):
    try:
        found[name] = version(name)
    except PackageNotFoundError:
        pass
print(json.dumps({"python": platform.python_version(), "packages": found}))
"""


@dataclass(frozen=True, slots=True)
class Interpreter:
    """`packages`: versions of what decides speed, by name."""

    path: str
    python: str
    packages: Mapping[str, str]


def interpreter_for(recipe: Recipe, path: str) -> Interpreter:
    """With the versions of what this runtime is made of. Raises BadInput (TL207) where there is no such Python."""
    return python_with(path, tuple(dict.fromkeys((*_ALWAYS, *recipe.packages, *recipe.needs, *recipe.also))))


@lru_cache(maxsize=8)
def python_with(path: str, wanted: tuple[str, ...], option: str = "python") -> Interpreter:
    """With the versions of some packages. `option`: the one that names it. Raises BadInput (TL207) where there is no
    such Python."""
    try:
        done = subprocess.run(
            [path, "-c", _ASK, json.dumps(wanted)], capture_output=True, text=True, timeout=60, check=True
        )
        facts = json.loads(done.stdout)
        return Interpreter(path, facts["python"], facts["packages"])
    except (OSError, subprocess.SubprocessError, ValueError, KeyError) as wrong:
        raise BadInput(f"{path!r} is no Python that can be started ({type(wrong).__name__}); correct "
                       f"executor.options.{option}", code="TL207") from None  # fmt: skip


def refuse_missing(recipe: Recipe, interpreter: Interpreter, device: AskedDevice = ANY) -> str:
    """The name of the package that is the runtime. Raises BadInput (TL217) where it, or what it needs, is missing, and
    where it is built for another device than the one that is asked for."""
    runtime = next((name for name in recipe.packages if name in interpreter.packages), None)
    missing = [name for name in recipe.needs if name not in interpreter.packages]
    if runtime is None or missing:
        lacks = " and ".join(missing) if runtime else " or ".join(recipe.packages)
        raise BadInput(f"{interpreter.path} has no {lacks}, which {recipe.kind} needs: {recipe.install}", code="TL217")
    built = "cpu" if "+cpu" in interpreter.packages[runtime] else recipe.built_for.get(runtime, device.kind)
    if "auto" not in (device.kind, built) and built != device.kind:
        raise BadInput(
            f"{runtime} in {interpreter.path} computes on {_PLACES[built]}, and executor.device is '{device}'; say "
            f'executor.device = "{built}", or name a Python with another build: {recipe.install}',
            code="TL217",
        )
    return runtime
