"""A study of a server that is up already, without a file: its model is found by asking it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from twinlens.measurement.preflight.check import long_enough_s
from twinlens.network.locate import locate
from twinlens.spec.load import parse
from twinlens.spec.source.attached import attached, fit_steady, refuse_training, source_of, usual_load, with_some_load
from twinlens.spec.source.settings import apply_settings
from twinlens.spec.study import Study

_OPTIONS = "executor.options."
_SHORTEST_S, _LONGEST_S, _MOST_S = 60.0, 120.0, 240.0


def attach(url: str, spec: str | Path | None = None, settings: Sequence[str] = ()) -> Study:
    """A study of the server at `url`: the load of `spec` (a file, an example, a run folder), or a usual one.

    `settings`: as of `--set`. An address without http:// or /v1, or with the path of an endpoint, will do; the key is
    that in OPENAI_API_KEY, where the server wants one, or in the variable that executor.options.api_key_env names. The
    duration, where nobody gives it, is one in which the fastest rate has a p99, 120 s at most; without a spec a run
    goes on from there until its answer is decided, 240 s at most. Raises BadInput with one
    sentence where no server can be asked.
    """
    load = source_of(spec).data if spec is not None else usual_load()
    refuse_training(load, str(spec))
    chosen: dict[str, Any] = {"executor": {"options": {}}}
    apply_settings(chosen, [setting for setting in settings if setting.startswith(_OPTIONS)])
    server = locate(url, chosen["executor"]["options"], streams=_task_kind(load, settings) == "generate")
    data = attached(load, server.options, server.model)
    apply_settings(data, [setting for setting in settings if not setting.startswith(_OPTIONS)])
    with_some_load(data)
    if spec is None and not any(setting.startswith("protocol.steady_s") for setting in settings):
        fit_steady(data)
    study = parse(data, where=server.options["url"])
    if "duration_s" not in data["protocol"]:
        data["protocol"]["duration_s"] = _duration_s(study)
        if spec is None:
            data["protocol"].setdefault("most_s", _MOST_S)
    return parse(data, where=server.options["url"])


def _task_kind(load: dict[str, Any], settings: Sequence[str]) -> str:
    """The kind of workload.task that the load and its settings ask for."""
    workload = load.get("workload")
    asked: dict[str, Any] = {"workload": {"task": dict((workload or {}).get("task") or {})}}
    apply_settings(asked, [setting for setting in settings if setting.startswith("workload.task.")])
    return str(asked["workload"]["task"].get("kind", "generate"))


def _duration_s(study: Study) -> float:
    rates = [run.point.rate_per_s for run in study.point_runs() if run.point.rate_per_s]
    if not rates:
        return _SHORTEST_S
    return min(_LONGEST_S, max(_SHORTEST_S, long_enough_s(max(rates))))
