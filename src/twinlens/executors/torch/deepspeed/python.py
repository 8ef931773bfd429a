"""The Python that has DeepSpeed, and the extension that DeepSpeed compiles for it, made before any rank starts."""

from __future__ import annotations

import sys
from pathlib import Path

from twinlens.errors import BadInput
from twinlens.executors.launch.interpreter import Interpreter, python_with
from twinlens.executors.protocol import Say
from twinlens.executors.torch.deepspeed.extension import built_in, folder_for
from twinlens.executors.torch.deepspeed.options import KIND, ZeroOptions
from twinlens.executors.torch.parallel.program import Program
from twinlens.spec.study import RunSpec
from twinlens.version import __version__

INSTALL = "pip install deepspeed==0.19.8 in a Python that has twinlens[torch], and name that in executor.options.python"
_NEEDED = ("deepspeed", "torch", "transformers", "twinlens")
_WORKER = "twinlens.executors.torch.deepspeed.worker"


def python_of(spec: RunSpec) -> Interpreter:
    """The Python that the ranks run in. Raises BadInput (TL207, TL217) for one that cannot."""
    path = ZeroOptions.of(spec.executor.options).python
    found = python_with(str(Path(path).expanduser().absolute()) if path else sys.executable, _NEEDED)
    _refuse_missing(found)
    return found


def program_of(spec: RunSpec, say: Say) -> Program:
    """What each rank runs. Raises BadInput (TL207, TL217) for a Python that cannot, ExecutorFailed (TL308) where the
    extension cannot be compiled."""
    found = python_of(spec)
    folder = folder_for(found, spec.device.kind)
    environment = {
        "TORCH_EXTENSIONS_DIR": str(folder),
        "PYTHONWARNINGS": "ignore::FutureWarning",  # torch 2.13 warns at each exchange of DeepSpeed 0.19
    }
    if spec.device.kind == "cpu":
        environment["DS_ACCELERATOR"] = "cpu"
    built_in(folder, found.path, environment, say)
    return Program(_WORKER, found.path, environment)


def _refuse_missing(found: Interpreter) -> None:
    missing = [name for name in _NEEDED if name not in found.packages]
    if missing:
        raise BadInput(f"{found.path} has no {' and no '.join(missing)}, which {KIND} needs: {INSTALL}", code="TL217")
    if found.packages["twinlens"] != __version__:
        raise BadInput(
            f"{found.path} has twinlens {found.packages['twinlens']}, and this is {__version__}: {INSTALL}",
            code="TL217",
        )
