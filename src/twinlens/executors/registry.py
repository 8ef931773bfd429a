"""Executors by name, through entry points: ours come in by the same door as a stranger's."""

from __future__ import annotations

import contextlib
import sys
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING

from twinlens.errors import BadInput, nearest
from twinlens.executors.capabilities import Capabilities, Executor, Place
from twinlens.executors.server_words import ServerWords
from twinlens.spec.precision import Lens
from twinlens.spec.study import RunSpec

if TYPE_CHECKING:  # it brings numpy and pyarrow
    from twinlens.executors.protocol import Exchanger, Launcher, Server, Trainer

_GROUP = "twinlens.executors"


def executor_names(lens: Lens | None = None) -> tuple[str, ...]:
    """The executors installed, for one lens or any. One that cannot be imported has no lens."""
    return tuple(name for name in sorted(_entries()) if lens is None or lens in lenses_of(name))


def lenses_of(kind: str) -> tuple[Lens, ...]:
    """The lenses of an installed executor; none where its module cannot be imported."""
    try:
        return executor(kind).lenses
    except BadInput:
        return ()


@lru_cache(maxsize=64)
def executor(kind: str) -> Executor:
    """Raises BadInput (TL207) where it is unknown, or its module cannot be imported or holds no Executor."""
    entry = _entries().get(kind)
    if entry is None:
        raise BadInput(f"unknown executor {kind!r}; {nearest(kind, sorted(_entries()))}", code="TL207")
    try:
        loaded = entry.load()
    except (ImportError, AttributeError) as error:
        raise BadInput(f"executor {kind!r} cannot be loaded: {error}", code="TL207") from error
    if not isinstance(loaded, Executor):
        raise BadInput(
            f"the entry point {kind!r} names {entry.value!r}, which is no twinlens.executors.capabilities.Executor",
            code="TL207",
        )
    return loaded


def capabilities(kind: str) -> Capabilities:
    """The capabilities of an executor; nothing heavy is imported. Raises BadInput (TL207)."""
    return executor(kind).capabilities


def place_of(spec: RunSpec) -> Place:
    """Where the work of a run is done. Raises BadInput (TL207)."""
    can = capabilities(spec.executor.kind)
    return "here" if spec.executor.options.get(can.here_with) else can.runs


def trainer(kind: str) -> Trainer:
    """A new trainer of this kind. Raises BadInput (TL207) when there is none, or its extra is not installed."""
    return _made(kind, "training")  # type: ignore[return-value]  # an executor's maker of a lens makes that


def server(kind: str) -> Server:
    """A new server of this kind. Raises as `trainer`."""
    return _made(kind, "inference")  # type: ignore[return-value]


def exchanger(kind: str) -> Exchanger:
    """A new exchanger of this kind. Raises as `trainer`."""
    return _made(kind, "collective")  # type: ignore[return-value]


def opener(spec: RunSpec) -> Trainer | Server | Exchanger:
    """A new executor for the lens of a run. Raises as `trainer`."""
    return _made(spec.executor.kind, spec.lens)


def _made(kind: str, lens: Lens) -> Trainer | Server | Exchanger:
    try:
        return _with_lens(kind, lens).makers[lens]()
    except ImportError as error:
        raise not_installed(kind, error) from error


def launcher(kind: str) -> Launcher | None:
    """A new launcher of this kind; None for an executor that starts no server. Raises BadInput (TL207)."""
    maker = executor(kind).launcher
    return None if maker is None else maker()


def preload(spec: RunSpec) -> None:
    """Import what a run needs. What cannot be imported, or is not there, is said when the run is opened."""
    with contextlib.suppress(Exception):
        if (load := executor(spec.executor.kind).preload) is not None:
            load(spec)


def launches(kind: str) -> bool:
    """Whether an executor starts a server of its own."""
    return executor(kind).launcher is not None


def is_ours(kind: str) -> bool:
    """Whether an installed executor comes with Twinlens; False for a name that nobody has installed."""
    entry = _entries().get(kind)
    return entry is not None and entry.module.partition(".")[0] == __package__.partition(".")[0]


def server_words() -> tuple[ServerWords, ...]:
    """Of every runtime that an installed executor knows; one that cannot be imported has none."""
    known = []
    for kind in executor_names():
        with contextlib.suppress(BadInput):
            known.append(executor(kind).words)
    return tuple(words for words in known if words is not None)


def refuse_unknown_executor(kind: str, lens: Lens) -> None:
    """Raises BadInput (TL207) for a name that nobody has installed for this lens."""
    _with_lens(kind, lens)


def distribution_of(kind: str) -> str:
    """The distribution and version that an executor comes from, or its own name where none is known."""
    entry = _entries().get(kind)
    return f"{entry.dist.name} {entry.dist.version}" if entry is not None and entry.dist else kind


def _entries() -> dict[str, EntryPoint]:
    return _entries_on(tuple(sys.path))


@lru_cache(maxsize=4)
def _entries_on(paths: tuple[str, ...]) -> dict[str, EntryPoint]:
    """The entry points on these paths; every name looked up would open the metadata of all packages again."""
    return {entry.name: entry for entry in entry_points(group=_GROUP)}


def _with_lens(kind: str, lens: Lens) -> Executor:
    if kind in _entries() and lens in (chosen := executor(kind)).lenses:
        return chosen
    raise BadInput(f"unknown executor {kind!r} for {lens}; {nearest(kind, executor_names(lens))}", code="TL207")


def not_installed(kind: str, error: ImportError) -> BadInput:
    """The sentence (TL207) on an executor whose packages are missing, with its extra."""
    return BadInput(
        f"executor {kind!r} cannot be loaded ({error}); install its extra: pip install 'twinlens[{kind}]'",
        code="TL207",
    )
