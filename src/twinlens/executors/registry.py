"""Executors by name, through entry points: ours come in by the same door as a stranger's."""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import Any

from twinlens.errors import BadInput, nearest
from twinlens.executors.protocol import Launcher, Server, Trainer

_GROUPS = {"training": "twinlens.trainers", "inference": "twinlens.servers"}


def executor_names(lens: str) -> tuple[str, ...]:
    """The executors installed for one lens."""
    return tuple(sorted({entry.name for entry in entry_points(group=_GROUPS[lens])}))


def trainer(kind: str) -> Trainer:
    """A new trainer of this kind. Raises BadInput when it is unknown or its extra is not installed."""
    return _load("training", kind)  # type: ignore[no-any-return]


def server(kind: str) -> Server:
    """A new server of this kind. Raises BadInput when it is unknown or its extra is not installed."""
    return _load("inference", kind)  # type: ignore[no-any-return]


def launcher(kind: str) -> Launcher | None:
    """A new launcher of this kind; None for an executor that starts no server. Only launchers are loaded: others may be
    heavy. They stand in the group twinlens.launchers beside twinlens.servers."""
    found = [entry for entry in entry_points(group="twinlens.launchers") if entry.name == kind]
    return found[0].load()() if found else None


def is_over_http(kind: str) -> bool:
    """Whether requests go to a server over HTTP, attached or started here: they are words then, and no tokens."""
    return kind == "openai-http" or any(entry.name == kind for entry in entry_points(group="twinlens.launchers"))


def distribution_of(kind: str, lens: str) -> str:
    """The distribution and version that an executor comes from, or its own name where none is known."""
    found = next((entry for entry in entry_points(group=_GROUPS[lens]) if entry.name == kind), None)
    return f"{found.dist.name} {found.dist.version}" if found is not None and found.dist else kind


def _load(lens: str, kind: str) -> Any:
    found = [entry for entry in entry_points(group=_GROUPS[lens]) if entry.name == kind]
    if not found:
        raise BadInput(f"unknown executor {kind!r} for {lens}; {nearest(kind, executor_names(lens))}", code="TL207")
    try:
        return found[0].load()()
    except ImportError as error:
        raise BadInput(
            f"executor {kind!r} cannot be loaded ({error}); install its extra: pip install 'twinlens[{kind}]'",
            code="TL207",
        ) from error
