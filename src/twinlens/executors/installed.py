"""The runtime of a run, looked for on this machine before anything is started."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, distribution

from twinlens.errors import BadInput
from twinlens.executors.registry import capabilities, executor, launcher
from twinlens.spec.study import RunSpec


def is_installed(packages: tuple[str, ...]) -> bool:
    """Whether this Python has one of some distributions; with none to look for, yes."""
    return not packages or any(map(_is_there, packages))


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
