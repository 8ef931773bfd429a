"""The start of the embedded server as figures: its load from a folder, and its first two answers."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from twinlens.executors.in_process.player import LockstepPlayer, first_answers, loaded
from twinlens.executors.launch.page_cache import cached_share
from twinlens.executors.torch.options import TorchOptions
from twinlens.record.estimate import Estimate
from twinlens.record.executor.facts import Estimates
from twinlens.schedule.request import ScheduledRequest
from twinlens.spec.model.any_model import Model
from twinlens.spec.study import RunSpec
from twinlens.units import RATIO, SECONDS

_LOADED = "from reading the folder's weights to a model at its precision with its cache, its libraries imported already"
_DRAWN = "its random weights were drawn, not read"
_COMPILES = "the first call compiles the graph: a note of the run says how long that took"
_REFERENCE = "; the fp32 reference had run in this process"


class Ready(Protocol):
    """A server whose model is in its precision and has answered nothing yet."""

    spec: RunSpec
    options: TorchOptions
    is_vision: bool

    @property
    def ref(self) -> Model: ...
    def answer(self, upcoming: tuple[ScheduledRequest, ...]) -> tuple[int, list[int]]: ...


def cached_of(ref: Model) -> float | None:
    """The share of the model's folder in the page cache; None where there is no folder, or it is not to be had."""
    return cached_share(Path(ref.folder)) if ref.folder else None


def start_figures(server: Ready, load_s: float, cached: float | None, *, is_warm: bool) -> Estimates:
    """`cached`: of its folder before the load. `is_warm`: the fp32 reference has run in this process, on the model as
    it was before."""
    figures = loaded(load_s, _LOADED, cached) if server.ref.folder else _drawn()
    if server.is_vision and server.options.is_compiled:
        names = ("start_first_answer_s", "start_second_answer_s")
        return figures | dict.fromkeys(names, Estimate.absent(SECONDS, _COMPILES))
    is_text, batch = not server.is_vision, server.spec.point.batch
    player, before = LockstepPlayer(server.answer, is_text=is_text), _REFERENCE if is_warm else ""
    return figures | first_answers(player.play, server.spec, together=batch, is_text=is_text, before=before)


def _drawn() -> Estimates:
    units = {"start_load_s": SECONDS, "start_cached_share": RATIO}
    return {name: Estimate.absent(unit, _DRAWN) for name, unit in units.items()}
