"""The runtime of a run, looked for on this machine before anything is started."""

from __future__ import annotations

import sys
from importlib.metadata import PackageNotFoundError, distribution, distributions
from pathlib import Path

from twinlens.errors import BadInput
from twinlens.executors.capabilities import Capabilities
from twinlens.executors.registry import capabilities, executor, launcher
from twinlens.spec.study import RunSpec


def is_installed(packages: tuple[str, ...]) -> bool:
    """Whether this Python has one of some distributions; with none to look for, yes."""
    return not packages or any(map(_is_there, packages))


def python_beside(can: Capabilities) -> str:
    """The Python of the environment that `make` installs an executor in, where that has it; "" where there is none.

    It is looked for in the working directory and beside this Python's own environment.
    """
    for folder in dict.fromkeys((Path(can.beside), Path(sys.prefix).parent / can.beside)) if can.beside else ():
        found = distributions(path=[str(each) for each in folder.glob("lib/python3*/site-packages")])
        if {_plain(each.name) for each in found} & {_plain(name) for name in can.packages}:
            return str(folder / "bin" / "python")
    return ""


def _plain(name: str) -> str:
    return name.lower().replace("_", "-")


def refuse_not_installed(spec: RunSpec) -> None:
    """Raises BadInput (TL207, TL217) where neither this Python nor the one that the spec names has the runtime."""
    if (starter := launcher(spec.executor.kind)) is not None:
        starter.refuse_not_installed(spec)
        return
    if (refuse := executor(spec.executor.kind).refuse_not_installed) is not None:
        refuse(spec)
        return
    can = capabilities(spec.executor.kind)
    if not is_installed(can.packages):
        raise BadInput(f"{spec.executor.kind} is not installed: {can.install}", code="TL207")


def _is_there(name: str) -> bool:
    try:
        distribution(name)
    except PackageNotFoundError:
        return False
    return True
