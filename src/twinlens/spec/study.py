"""A spec, whole, and the runs it stands for."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Mapping
from functools import cached_property
from itertools import product
from math import prod
from typing import Annotated, Any, Literal, Self

from pydantic import (
    BeforeValidator,
    Field,
    NonNegativeInt,
    PositiveFloat,
    SerializerFunctionWrapHandler,
    ValidationError,
    model_serializer,
)

from twinlens.errors import BadInput, nearest
from twinlens.spec.device import AskedDevice, asked_device
from twinlens.spec.frozen import Spec
from twinlens.spec.model.any_model import AnyModel, any_model
from twinlens.spec.point import POLICY_FIELDS, Point, without_unsaid
from twinlens.spec.precision import Lens, Precision, frozen, kept_in
from twinlens.spec.precision import precision as regime_named
from twinlens.spec.protocol import Protocol
from twinlens.spec.slo import Search
from twinlens.spec.tune import Tune
from twinlens.spec.workload.workload import TrainingWorkload, Workload

SCHEMA: Literal[1] = 1
_NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,60}$"


def _as_values(grid: object) -> object:
    """A table in which a value that is no list stands for a list of it: `precision = "fp32"`."""
    if not isinstance(grid, Mapping):
        return grid
    return {path: tuple(value) if isinstance(value, list | tuple) else (value,) for path, value in grid.items()}


Grid = dict[str, Annotated[tuple[Any, ...], Field(min_length=1)]]
"""Fields and their values; its points are all combinations."""


class ExecutorSpec(Spec):
    """Which executor runs it and how it is set up; what really ran is recorded by the executor itself."""

    kind: str = Field(
        "torch", description="The executor that runs the workload: an entry point, `twinlens list executors`."
    )
    device: str = Field(
        "auto", description='Where it runs: "auto" (a GPU where there is one), "cpu", "cuda" or "cuda:N".'
    )
    threads: NonNegativeInt = Field(0, description="Threads of the processor; 0 means one per physical core.")
    power_limit_w: PositiveFloat | None = Field(
        None,
        examples=[300.0],
        description="The power limit of each device that is used, in watts, while a run is measured; afterwards that "
        "which was found is set again, whatever ends the program.",
    )
    options: dict[str, Any] = Field(
        default_factory=dict,
        description="Settings that only this executor knows; each has a page of its own: `twinlens explain WORD`.",
    )

    @model_serializer(mode="wrap")
    def _without_unset_limit(self, whole: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Without a limit that nobody asked for: what a spec asks, and its fingerprint, are as before there was one."""
        data: dict[str, Any] = whole(self)
        return data if self.power_limit_w is not None else {k: v for k, v in data.items() if k != "power_limit_w"}


class RunSpec(Spec):
    """One run: executor × workload × operating point, with the repeat's own seed."""

    schema_: Literal[1] = Field(default=SCHEMA, alias="schema")
    name: str = Field("run", pattern=_NAME)
    executor: ExecutorSpec = ExecutorSpec()
    workload: Workload
    point: Point = Point()
    protocol: Protocol = Protocol()
    repeat: NonNegativeInt = 0

    @cached_property
    def model(self) -> AnyModel:
        """The model that the workload names, looked up once: whoever needs it is passed this value.

        Raises BadInput (TL201, TL202) where it is not here or cannot be read.
        """
        return any_model(self.workload.model)

    @property
    def device(self) -> AskedDevice:
        """The device that `executor.device` asks for. Raises BadInput (TL208) for what is no device of ours."""
        return asked_device(self.executor.device)

    @property
    def precision(self) -> Precision:
        """The regime that the point's precision names, of an adapter's training where one is trained, and with the KV
        cache that `executor.options.kv_format` asks for.

        Raises BadInput (TL203)."""
        regime = kept_in(regime_named(self.point.precision), self.executor.options.get("kv_format"))
        if isinstance(self.workload, TrainingWorkload) and self.workload.method != "full":
            return frozen(regime, nf4=self.workload.method == "qlora")
        return regime

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """As pydantic's; a model that was looked up is not that of another workload."""
        copied = super().model_copy(update=update, deep=deep)
        if update and "workload" in update:
            copied.__dict__.pop("model", None)
        return copied

    @property
    def seed(self) -> int:
        """A new seed for each repeat, so that no two runs see the same data or prompts."""
        return self.protocol.seed * 1000 + self.repeat

    def prompt_seed(self, salt: int = 0) -> int:
        """The seed of the prompts' words, 62 bits: new for every point and repeat, so that none meets another's cache.

        It does not depend on the executor: all servers get the same prompts. `salt` makes others of the same point.
        """
        identity = {"seed": self.seed, "point": self.point.model_dump(mode="json", exclude_none=True), "salt": salt}
        return int(_digest(identity)[:16], 16) >> 2

    @property
    def lens(self) -> Lens:
        return self.workload.kind

    def fingerprint(self) -> str:
        """Twelve hex digits over everything that was asked, independent of key order."""
        return _fingerprint(self.to_dict())

    def point_fingerprint(self) -> str:
        """The fingerprint that all repeats of one point share."""
        return _fingerprint(self.to_dict() | {"repeat": 0})

    def to_dict(self) -> dict[str, Any]:
        """The spec as plain data, `schema` first; of a program that is watched or read, without what nobody said."""
        data = self.model_dump(mode="json", by_alias=True)
        return without_unsaid(data, self.executor.kind, workload=self.workload, protocol=self.protocol)


class Study(Spec):
    """A spec file: one run, or a grid of them."""

    schema_: Literal[1] = Field(default=SCHEMA, alias="schema", description="The version of the format of this file.")
    name: str = Field(
        default="run",
        pattern=_NAME,
        description="The name of the study and its folder; letters, digits, dots, dashes and underscores.",
    )
    executor: ExecutorSpec = Field(ExecutorSpec(), description="What runs the workload.")
    workload: Workload = Field(
        examples=[{"kind": "training", "model": "demo-34m", "global_batch": 4}],
        description="What is run: training or inference, its model and its sizes.",
    )
    point: Point = Field(
        Point(),
        description="The operating point: precision, batch, rate; of a sweep, what it does not name.",
    )
    sweep: Grid = Field(
        default_factory=dict,
        examples=[{"precision": ["fp32", "bf16"]}],
        description="Fields of the point (or dotted paths) and their values; all combinations are measured.",
    )
    variants: tuple[Annotated[Grid, BeforeValidator(_as_values)], ...] = Field(
        (),
        examples=[[{"executor.kind": "torch"}, {"executor.kind": "openvino", "precision": ["fp32", "bf16"]}]],
        description="Several sweeps, each for itself: all their points are measured, at each point of `sweep`.",
    )
    search: Search | None = Field(
        None,
        examples=[{"over": "rate_per_s", "start": 1.0}],
        description="Instead of given rates, look for the highest one that meets the SLO, at each point of the sweep.",
    )
    tune: Tune | None = Field(
        None,
        examples=[{"space": {"threads": [1, 2]}, "budget": {"trials": 4, "wall_h": 0.5, "device_h": 0.5}}],
        description="The bound of a tuning, for `twinlens tune`.",
    )
    protocol: Protocol = Field(Protocol(), description="How it is measured: how long, how often, from which seed.")

    @property
    def lens(self) -> Lens:
        return self.workload.kind

    def to_dict(self) -> dict[str, Any]:
        """The study as plain data, `schema` first; of a trainer's log, without what nobody said."""
        data = self.model_dump(mode="json", by_alias=True)
        if self.tune is None:
            del data["tune"]
        return without_unsaid(data, self.executor.kind, workload=self.workload, protocol=self.protocol)

    def __repr__(self) -> str:
        swept = ", ".join(f"{path} in {list(values)}" for path, values in self.sweep.items())
        over = f", search over {self.search.over}" if self.search else ""
        variants = f", {len(self.variants)} variants" if self.variants else ""
        described = f"{self.lens} of {self.workload.model} on {self.executor.kind}{', ' if swept else ''}{swept}"
        described += f"{variants}{over}"
        return f"<Study {self.name}: {described}, {self.protocol.repeats} × {self.protocol.duration_s:g} s>"

    def fingerprint(self) -> str:
        """Twelve hex digits over everything that was asked."""
        return _fingerprint(self.to_dict())

    def at(self, **point: Any) -> Self:
        """The same study at another operating point: `study.at(precision="bf16")`. Raises BadInput."""
        for name in set(point) - set(Point.model_fields):
            raise BadInput(
                f"an operating point has no field {name!r}; {nearest(name, Point.model_fields)}", code="TL202"
            )
        data = self.to_dict()
        data["point"] |= point
        for key in point:
            for grid in (data["sweep"], *data["variants"]):
                grid.pop(key, None)
            if self.search is not None and key == self.search.over:
                data["search"] = None
        try:
            return type(self).model_validate_json(json.dumps(data))
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            raise BadInput(
                f"operating point: {'.'.join(map(str, first['loc']))}: {first['msg']}", code="TL202"
            ) from None

    @property
    def swept(self) -> frozenset[str]:
        """The fields that the sweep or a variant names; those of the point without their table's name."""
        return frozenset(path.removeprefix("point.") for grid in (self.sweep, *self.variants) for path in grid)

    def points(self) -> list[dict[str, Any]]:
        """Every combination of the sweep at each variant, as path → value; one empty mapping when nothing is swept."""
        points = dict[str, dict[str, Any]]()
        for variant in self.variants or ({},):
            for swept in _combinations(self.sweep):
                for own in _combinations(variant):
                    point = self._of_policy(swept | own)
                    # What a policy does not read makes no second point, nor does a value that is the default anyway.
                    points.setdefault(self._run_at(point, 0).fingerprint() if self.variants else repr(point), point)
        return list(points.values())

    def _of_policy(self, point: dict[str, Any]) -> dict[str, Any]:
        """A point of a sweep over admission policies without what is meant for the others: a timeout, a batch size."""
        named = {path.removeprefix("point."): value for path, value in point.items()}
        own = POLICY_FIELDS.get(str(named.get("admission")))
        if own is None:
            return point
        others = {name for fields in POLICY_FIELDS.values() for name in fields} - set(own)
        unset = {name: Point.model_fields[name].default for name in sorted(others)}
        kept = {path: value for path, value in point.items() if path.removeprefix("point.") not in others}
        return kept | {name: default for name, default in unset.items() if getattr(self.point, name) != default}

    def runs(self) -> list[RunSpec]:
        """The runs in measuring order: repeats outermost, and the points of each repeat in a seeded random order.

        All of A before all of B would let heat or a neighbour favour one of them; interleaving does not. Of a search
        only the runs that it begins with: what follows depends on them.
        """
        if self.search is not None:
            return self.point_runs()
        planned: list[RunSpec] = []
        for repeat in range(self.protocol.repeats):
            specs = [self._run_at(point, repeat) for point in self.points()]
            random.Random(f"{self.protocol.seed}/{repeat}").shuffle(specs)
            planned += specs
        return planned

    def point_runs(self) -> list[RunSpec]:
        """One run per operating point (the first repeat), in the order in which the spec names them."""
        if self.search is not None:
            return [self.trial(point, self.search.rounded(self.search.start), 0) for point in self.points()]
        return [self._run_at(point, 0) for point in self.points()]

    def candidate(self, settings: Mapping[str, Any], repeat: int = 0) -> RunSpec:
        """The run of a tuning with these settings, by dotted path. Raises ValidationError for what is no value."""
        return self._run_at(dict(settings), repeat)

    def trial(self, point: dict[str, Any], value: float, before: int) -> RunSpec:
        """The run of a search at one value of what it is over, measured `before` times already. Raises ValueError."""
        if self.search is None:
            raise ValueError("this study has no search")
        tried = round(value) if self.search.over == "concurrency" else value
        return self._run_at(point | {self.search.over: tried}, before)

    def _run_at(self, point: dict[str, Any], repeat: int) -> RunSpec:
        data = {name: value for name, value in self.to_dict().items() if name not in _OF_STUDY}
        for path, value in point.items():
            put_at(data, path if "." in path else f"point.{path}", value)
        return RunSpec.model_validate_json(json.dumps(data | {"repeat": repeat}))


_OF_STUDY = ("sweep", "variants", "search", "tune")
"""What a study has and its runs have not."""
MOST_POINTS, MOST_RUNS = 1000, 10_000
"""Of one study: far more than anybody measures, and still planned in seconds."""


def refuse_too_large(study: Study) -> None:
    """Raises BadInput (TL202) for a study of more points or runs than anybody measures, before any of them is made."""
    points = sum(prod(map(len, (study.sweep | grid).values())) for grid in study.variants or ({},))
    runs = points * study.protocol.repeats
    if points > MOST_POINTS or runs > MOST_RUNS:
        raise BadInput(
            f"{points} point{'s' * (points != 1)} in {study.protocol.repeats} repeats are {runs} runs; "
            f"a study has at most {MOST_POINTS} "
            f"points and {MOST_RUNS} runs: sweep fewer values, or lower protocol.repeats",
            code="TL202",
        )


def _combinations(grid: Mapping[str, tuple[Any, ...]]) -> list[dict[str, Any]]:
    return [dict(zip(grid, values, strict=True)) for values in product(*grid.values())]


def put_at(data: dict[str, Any], path: str, value: Any) -> None:
    """Set a dotted path in nested mappings, making the ones between. Raises TypeError through a non-mapping."""
    *parents, last = tables_of(path)
    for parent in parents:
        child = data.setdefault(parent, {})
        if not isinstance(child, dict):
            raise TypeError(f"{parent!r} in {path!r} holds a value, not a table")
        data = child
    data[last] = value


def tables_of(path: str) -> list[str]:
    """The tables that a dotted path names, and its field; of a sweep, all that follows is one field's own path."""
    table, dot, field = path.partition(".")
    return [table, field] if dot and table == "sweep" else path.split(".")


def _fingerprint(data: dict[str, Any]) -> str:
    return _digest(data)[:12]


def _digest(data: dict[str, Any]) -> str:
    canonical = json.dumps(data, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()
