"""One executor under test: its capabilities, and the small specs it is given."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from twinlens.executors.capabilities import Capabilities, Executor
from twinlens.executors.registry import executor
from twinlens.spec.load import parse
from twinlens.spec.point import Point
from twinlens.spec.precision import Lens
from twinlens.spec.study import RunSpec

Options = Mapping[str, Any] | Callable[[Lens, str], Mapping[str, Any]]
"""`[executor.options]`, or what gives them for a lens and a model."""
MODELS = {"decoder": "tiny", "vit": "vit-tiny", "resnet": "resnet-tiny"}
"""The smallest of the catalogue, by family."""
_RATE, _CONCURRENCY = 50.0, 3


@dataclass(frozen=True)
class Case:
    """`executor_fields`: more of `[executor]` than kind and options; only what the executor heeds is given to it."""

    kind: str
    options: Options = field(default_factory=dict)
    executor_fields: Mapping[str, Any] = field(default_factory=dict)

    @property
    def executor(self) -> Executor:
        return executor(self.kind)

    @property
    def can(self) -> Capabilities:
        return self.executor.capabilities

    def models(self) -> tuple[str, ...]:
        """A small model of each family that it takes."""
        return tuple(MODELS[family] for family in self.can.families)

    def spec(self, lens: Lens, model: str, options: Mapping[str, Any] | None = None, **point: Any) -> RunSpec:
        """A small run. `options` None: those of the case."""
        chosen = self.options(lens, model) if callable(self.options) else self.options
        heeded = {"threads": 1} | dict(self.executor_fields)
        data = {
            "name": "conformance",
            "executor": {name: value for name, value in heeded.items() if name in self.can.settings}
            | {"kind": self.kind, "options": dict(chosen if options is None else options)},
            "workload": self._workload(lens, model),
            "point": {"precision": self._precision()} | (self._load() if lens == "inference" else {}) | point,
            "protocol": {"ceilings": False, "isolate": False, "repeats": 1, "duration_s": 0.1, "min_rows": 5}
            | {"steady_s": 0.0, "extend": 0},
        }
        return parse(data).runs()[0]

    def _workload(self, lens: Lens, model: str) -> dict[str, Any]:
        images = {} if model == MODELS["decoder"] else {"data": {"kind": "images"}}
        if lens == "collective":
            return {"kind": lens, "exchange": "all-reduce", "size_bytes": 4096}
        if lens == "training":
            return {"kind": lens, "model": model, "global_batch": 4, "seq_len": 32} | images
        lengths = {"input_tokens": {"kind": "fixed", "value": 16}, "output_tokens": {"kind": "fixed", "value": 6}}
        task = {} if "generate" in self.can.tasks else {"task": {"kind": self.can.tasks[0]}}
        return {"kind": lens, "model": model, "arrival": {"kind": self._arrival()}} | lengths | images | task

    def _precision(self) -> str:
        usual = Point().precision
        return usual if self.can.precisions is None or usual in self.can.precisions else self.can.precisions[0]

    def _arrival(self) -> str:
        return next(kind for kind in ("lockstep", "closed", "poisson", "constant") if kind in self.can.arrivals)

    def _load(self) -> dict[str, Any]:
        named = {"lockstep": {"batch": 3}, "closed": {"concurrency": _CONCURRENCY}}
        return named.get(self._arrival(), {"rate_per_s": _RATE})
