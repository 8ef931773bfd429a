"""The entry of an engine in this process: light until a run of it is opened."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from pkgutil import resolve_name
from typing import TYPE_CHECKING

from twinlens.errors import BadInput
from twinlens.executors.capabilities import Capabilities, Executor, named
from twinlens.spec.study import RunSpec

if TYPE_CHECKING:  # it brings numpy
    from twinlens.executors.in_process.engine import Runtime


Made = tuple[tuple[str, ...], str]
"""The precisions that a kind of model is run at, and the place of its Runtime ("module:NAME")."""


def by_family(kind: str, text: Made, images: Made, needs: tuple[str, ...] = ()) -> Callable[[RunSpec], Runtime]:
    """The runtime of a language model, or that of a classifier of images. `needs`: packages of the export, which is
    made in a process of its own. Raises BadInput (TL203) for a precision of the other kind of model."""

    def runtime_of(spec: RunSpec) -> Runtime:
        is_text = spec.model.known().shape.family == "decoder"
        (made, place), models = (text, "language models") if is_text else (images, "classifiers of images")
        if spec.point.precision not in made:
            raise BadInput(
                f"{kind} runs {models} at {', '.join(made)}, and point.precision is {spec.point.precision!r}",
                code="TL203",
            )
        return runtime_at(place, needs)

    return runtime_of


def runtime_at(place: str, needs: tuple[str, ...] = ()) -> Runtime:
    """The Runtime at a place. Raises ImportError."""
    for name in needs:
        import_module(name)
    found: Runtime = resolve_name(place)
    return found


def engine_executor(extra: str, can: Capabilities, runtime_of: Callable[[RunSpec], Runtime]) -> Executor:
    """The executor of an engine in this process, whose packages are imported when a run of it is opened.

    `extra`: installs them. `runtime_of`: raises ImportError where they are not there.
    """

    server = partial(named("twinlens.executors.in_process.engine_server:EngineServer"), extra, runtime_of)

    def preload(spec: RunSpec) -> None:
        runtime_of(spec)
        server()

    return Executor(can, server=server, preload=preload)
