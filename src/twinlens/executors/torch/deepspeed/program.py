"""The program of each rank of DeepSpeed: the Python that has it, and the extension that it compiles for that Python."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from twinlens.errors import BadInput, ExecutorFailed
from twinlens.executors.launch.interpreter import Interpreter, python_with
from twinlens.executors.launch.process import Process
from twinlens.executors.protocol import Say
from twinlens.executors.torch.deepspeed.entry import INSTALL, KIND, ZeroOptions
from twinlens.executors.torch.parallel.program import WORKER, Program
from twinlens.spec.study import RunSpec
from twinlens.system.document import read_json
from twinlens.system.home_folder import cache_folder
from twinlens.system.log import read_log, telling_line
from twinlens.version import __version__

_NEEDED = ("deepspeed", "torch", "transformers", "twinlens")
_OPENS = "twinlens.executors.torch.deepspeed.engine:open_zero"


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
    return Program((WORKER, _OPENS), found.path, environment)


def _refuse_missing(found: Interpreter) -> None:
    missing = [name for name in _NEEDED if name not in found.packages]
    if missing:
        raise BadInput(f"{found.path} has no {' and no '.join(missing)}, which {KIND} needs: {INSTALL}", code="TL217")
    if found.packages["twinlens"] != __version__:
        raise BadInput(
            f"{found.path} has twinlens {found.packages['twinlens']}, and this is {__version__}: {INSTALL}",
            code="TL217",
        )


# DeepSpeed's extension for processors: compiled once for each Python, in a folder of ours, before any rank starts.
# torch marks a compilation with a file named `lock`, which nobody removes when the compiler is killed: every later
# start then waits for ever. This folder is ours alone, and who compiles in it holds a lock of the system, which ends
# with its process; whoever gets that one knows that a `lock` left in the folder is nobody's.

_COMPILE = """
from deepspeed.accelerator import get_accelerator
if get_accelerator().device_name() == "cpu":
    get_accelerator().create_op_builder("ShareMemCommBuilder").load()
"""
_MOST_S = 900.0


def folder_for(python: Interpreter, device: str) -> Path:
    """The folder of one Python, its torch, its DeepSpeed and a kind of device."""
    parts = [python.path, python.python, python.packages["torch"], python.packages["deepspeed"], device]
    identity = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]
    return cache_folder() / "deepspeed" / identity


def built_in(folder: Path, python: str, environment: Mapping[str, str], say: Say) -> float:
    """Seconds that compiling took, now or when it was done. Raises ExecutorFailed (TL308)."""
    folder.mkdir(parents=True, exist_ok=True)
    done = folder / "compiled.json"
    with _alone_in(folder, say):
        for lock in abandoned_locks(folder):
            say("removing the lock of a compilation that was ended")
            lock.unlink()
            done.unlink(missing_ok=True)
        if not done.exists():
            say("compiling DeepSpeed's extension (a minute or two, once)")
            done.write_text(json.dumps({"took_s": _compiled(folder, python, environment)}))
        took_s: float = read_json(done)["took_s"]
        return took_s


def abandoned_locks(folder: Path) -> list[Path]:
    """Locks of torch's compilations; to be asked by whoever has the folder alone, so that they are nobody's."""
    return sorted(folder.glob("*/lock"))


@contextlib.contextmanager
def _alone_in(folder: Path, say: Say) -> Iterator[None]:
    """Raises ExecutorFailed (TL308) where another run compiles there for longer than a compilation may take."""
    until_s = time.monotonic() + _MOST_S
    with open(folder / "owner", "w") as owner:
        while True:
            try:
                fcntl.flock(owner, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError:
                if time.monotonic() > until_s:
                    raise ExecutorFailed(
                        f"another run has been compiling in {folder} for {_MOST_S:g} s; end it, or set TWINLENS_CACHE "
                        "to another folder",
                        code="TL308",
                    ) from None
                say("waiting for another run that compiles DeepSpeed's extension")
                time.sleep(0.5)
        yield


def _compiled(folder: Path, python: str, environment: Mapping[str, str]) -> float:
    log = folder / "compiled.log"
    log.unlink(missing_ok=True)
    begin_s = time.monotonic()
    process = Process([python, "-c", _COMPILE], dict(os.environ) | dict(environment), log, grace_s=2.0)
    try:
        while (code := process.exit_code()) is None:
            if time.monotonic() - begin_s > _MOST_S:
                raise ExecutorFailed(f"DeepSpeed's extension was not compiled in {_MOST_S:g} s", code="TL308")
            time.sleep(0.05)
    finally:
        process.stop()
    if code != 0:
        raise ExecutorFailed(
            f"DeepSpeed's extension cannot be compiled: {telling_line(read_log(log))}; it needs a C++ compiler and "
            f"ninja, and its log is {log}",
            code="TL308",
        )
    return time.monotonic() - begin_s
