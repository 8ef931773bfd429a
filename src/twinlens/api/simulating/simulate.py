"""The verb that simulates: a spec served in virtual time at each of its points, with bands, limits and run folders.

A spec of training is answered by `training`, and both together by `mixed`.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from twinlens.api.documented import Documented
from twinlens.api.question import asks
from twinlens.api.questions import SIMULATE, Simulate
from twinlens.api.simulating.basis import basis_of
from twinlens.api.simulating.fleets import Fleets, fleets_of
from twinlens.api.simulating.settings import (
    AS_ASKED,
    UNREADABLE,
    Policy,
    Settings,
    front_of,
    metric_of,
    policies_of,
    settings_of,
)
from twinlens.errors import BadInput
from twinlens.record.codec import encode
from twinlens.record.run import Run
from twinlens.record.store import now_utc
from twinlens.schedule.build import planned_load
from twinlens.schedule.plan import NONE
from twinlens.simulation.points.basis import Basis
from twinlens.simulation.points.fleet import Fleet, refuse_waiting
from twinlens.simulation.points.play import refuse_unplayable
from twinlens.simulation.points.run_folder import NOT_MODELLED, changed, simulated_of, write_run
from twinlens.simulation.points.smallest import TRIALS, cost, slo_of, smallest
from twinlens.simulation.points.sweep import CHANGED, Point, Size, Sweep, changes, flips, simulate_point, with_seeds
from twinlens.simulation.rules import READ_FROM, Rules
from twinlens.spec.load import load, parse
from twinlens.spec.study import RunSpec, Study
from twinlens.spec.workload.length import Fixed, Lognormal
from twinlens.spec.workload.workload import InferenceWorkload
from twinlens.version import __version__

if TYPE_CHECKING:
    from twinlens.api.simulating.mixed import SimulatedMix
    from twinlens.api.simulating.training import SimulatedTraining
    from twinlens.api.words import SimulateWords
    from twinlens.reporting.document.block import Document

_MOST = 20_000_000
"""Tokens of all points and seeds together: a minute or two of work."""


@dataclass(frozen=True, slots=True, repr=False)
class SimulateResult(Sweep, Documented):
    """What `simulate` found; `tl.compare(run, twin)` and `tl.report(twin)` take it as its runs."""

    def document(self) -> Document:
        from twinlens.reporting.simulated.points import simulation_document

        return simulation_document(self)

    def to_json(self) -> dict[str, Any]:
        """As plain data; every figure with its band, its method and its origin."""
        law = self.basis.law
        return {
            "schema": 1, "twinlens": __version__, "simulated": True,
            "law": {"origin": law.origin, "source": law.source, "device": self.basis.device or None,
                    "constants": encode(law), "draws": len(self.basis.draws), "doubts": list(self.basis.doubts)},
            "power": encode(self.basis.powers.power) or {"absent": self.basis.powers.absent},
            "rules": {"read_from": READ_FROM, "changed": changed(self.basis.rules)},
            "changed": list(self.changed), "not_modelled": list(NOT_MODELLED),
            "points": [_point_json(each, self.price_per_hour) for each in self.points],
            "before": [_point_json(each, self.price_per_hour) for each in self.before],
            "smallest": [{"rate_per_s": each.spec.point.rate_per_s, "reason": each.reason or None,
                          "policy": each.name, "replicas": each.replicas} for each in self.sizes],
            "changes": [{name: encode(changes(old, new, name)) for name in CHANGED}
                        for old, new in zip(self.before, self.points, strict=bool(self.before))],
            "chosen": [{"rate_per_s": rate, "policies": list(names)} for rate, names in self.chosen.items()],
            "flips": encode(list(self.turns)), "runs": [str(run.folder) for run in self.runs],
        }  # fmt: skip


def _point_json(point: Point, price_per_hour: float | None) -> dict[str, Any]:
    return {
        "fleet": encode(point.fleet) if point.fleet is not None else None,
        "cost": encode(cost(point, price_per_hour)) if price_per_hour is not None else None,
        "point": point.spec.point.model_dump(mode="json", exclude_none=True), "policy": point.policy or None,
        "seeds": len(point.repeats), "overloaded": point.overloaded, "capacity": encode(point.capacity),
        "binds": encode(point.binding), "binds_when_full": encode(point.full), "beyond_measured": dict(point.beyond),
        "figures": encode(dict(point.figures)),
    }  # fmt: skip


@asks(SIMULATE)
def simulate(
    spec: Study | RunSpec | str | Path, **words: Unpack[SimulateWords]
) -> SimulateResult | SimulatedTraining | SimulatedMix:
    """A spec in virtual time, by one law: `like` measured runs, a `law` from a table, or modelled for a `device`.

    `simulate("chat", like="runs/STUDY", at=["rate_per_s=2,4,8"])`; of a training spec when it ends, and with `with_`
    what a training spec adds to a serving one. Rows of every point and seed are kept as run folders under `out`, and
    origin *simulated* stands beside every figure. Raises BadInput (TL245, TL250), before any work.
    """
    said = {"spec": spec if isinstance(spec, str | Path) else "given", **words}
    asked = Simulate.read(SIMULATE.name, said, *SIMULATE.questions)
    if asked.with_ is not None or asked.day is not None:
        from twinlens.api.simulating.mixed import simulate_mixed

        return simulate_mixed(spec, asked)
    if _trains(spec):
        from twinlens.api.simulating.training import simulate_training

        return simulate_training(spec, asked)
    return _served(spec, asked)


def _trains(spec: Study | RunSpec | str | Path) -> bool:
    known = load(spec) if isinstance(spec, str | Path) else spec
    return known.workload.kind == "training"


def _served(spec: Study | RunSpec | str | Path, asked: Simulate) -> SimulateResult:
    settings = settings_of(asked.set_)
    policies = policies_of(asked.batching) if asked.batching else (AS_ASKED,)
    study = _study(spec, asked, settings)
    first = study.point_runs()[0]
    refuse_unplayable(first)
    basis = basis_of(asked.like, asked.law, asked.device, first, settings, asked.devices)
    fleets = fleets_of(asked)
    works = [(policy, run) for policy in policies for run in _under(study, policy).point_runs()]
    _refuse_endless([run for _, run in works], asked.seeds * (TRIALS if fleets.searched else max(1, len(fleets.each))))
    if fleets.each:
        _refuse_waiting([run for _, run in works], fleets)
        _refuse_pools(policies, basis.rules, fleets)
    sizes = _sizes(works, basis, fleets, asked.seeds) if fleets.searched else ()
    made = _tried(sizes) if fleets.searched else _points(works, basis, fleets, asked.seeds)
    points, metric = tuple(point for _, point in made), metric_of(first)
    told_apart = len({each.policy for each in points}) > 1 and fleets.of_one_size and not fleets.searched
    chosen, turns = flips(points, metric) if told_apart else ({}, ())
    alone = len(policies) == 1 and len(fleets.each) < 2 and not fleets.searched
    before = _before(spec, asked, settings, points) if alone else ()
    runs = _written(study, basis, points, [policy for policy, _ in made], asked.out) if not asked.dry else ()
    price = None if asked.price is None else float(asked.price)
    return SimulateResult(
        study, basis, points, runs, settings.changed, metric, chosen, turns, before,
        tuple(each for _, each in sizes), price,
    )  # fmt: skip


def _points(
    works: Sequence[tuple[Policy, RunSpec]], basis: Basis, fleets: Fleets, seeds: int
) -> list[tuple[Policy, Point]]:
    """Every load under every policy, by one engine or by every fleet."""
    return [
        (policy, simulate_point(with_seeds([run], seeds), basis, policy.rules(basis.rules),
                                _label(policy, run, fleet), fleet))
        for fleet in fleets.each or (None,)
        for policy, run in works
    ]  # fmt: skip


def _label(policy: Policy, run: RunSpec, fleet: Fleet | None) -> str:
    """ "static(8) · 4 replicas, shortest-queue"; "" for one engine that batches continuously."""
    return " · ".join(filter(None, (policy.name or front_of(run), fleet.name if fleet is not None else "")))


def _sizes(
    works: Sequence[tuple[Policy, RunSpec]], basis: Basis, fleets: Fleets, seeds: int
) -> tuple[tuple[Policy, Size], ...]:
    return tuple(
        (policy, smallest(with_seeds([run], seeds), basis, policy.rules(basis.rules), fleet, policy.name))
        for fleet in fleets.each
        for policy, run in works
    )


def _tried(sizes: Sequence[tuple[Policy, Size]]) -> list[tuple[Policy, Point]]:
    """What a search shows: the smallest fleet that is enough, after one that is not."""
    return [(policy, point) for policy, size in sizes for point in (size.fewer, size.enough) if point is not None]


def _refuse_waiting(runs: Sequence[RunSpec], fleets: Fleets) -> None:
    """Raises BadInput (TL250) for loads that no fleet serves, a death after them, and a search without an SLO."""
    dies_s = fleets.each[0].dies_s
    for run in runs:
        if dies_s is not None and dies_s >= run.protocol.duration_s:
            raise BadInput(
                f"the replica dies at {dies_s:g} s, and requests come for {run.protocol.duration_s:g} s: an earlier "
                "--failing, or a longer protocol.duration_s", code=UNREADABLE)  # fmt: skip
        plan = planned_load(run).plan
        refuse_waiting(run, plan is not None and not (plan.intended_ns == NONE).any(), fleets.each[0])
        if fleets.searched:
            slo_of(run)


def _refuse_pools(policies: Sequence[Policy], rules: Rules, fleets: Fleets) -> None:
    """Raises BadInput (TL250) for pools of engines that run batches: a prompt and its answer are one batch there."""
    if any(each.prefill for each in fleets.each) and any(
        each.rules(rules).batching != "continuous" for each in policies
    ):
        raise BadInput("--pools takes engines that batch continuously: a static batch runs prompts and answers in one "
                       "engine; leave engine: out of --batching", code=UNREADABLE)  # fmt: skip


def _before(
    spec: Study | RunSpec | str | Path, asked: Simulate, settings: Settings, points: Sequence[Point]
) -> tuple[Point, ...]:
    """The same points without the change, by the same seeds and draws; none where `--set` changes nothing of those."""
    plain = settings.without_change
    if plain == settings:
        return ()
    specs = _study(spec, asked, plain).point_runs()
    if len(specs) != len(points):
        return ()
    basis = basis_of(asked.like, asked.law, asked.device, specs[0], plain, asked.devices)
    fleet = points[0].fleet
    return tuple(
        simulate_point(with_seeds([each], asked.seeds), basis, basis.rules, points[0].policy if fleet else "", fleet)
        for each in specs
    )


def _study(spec: Study | RunSpec | str | Path, asked: Simulate, settings: Settings) -> Study:
    from twinlens.api.measuring.spec_asked import as_settings

    told = [*as_settings(asked.at), *settings.spec]
    if isinstance(spec, str | Path):
        return load(spec, told)
    data = spec.to_dict()
    data.pop("repeat", None)
    return parse(data, told)


def _under(study: Study, policy: Policy) -> Study:
    """The study under a policy; without one named, its own."""
    if not policy.name:
        return study
    data = study.to_dict()
    for name in ("admission", "batch", "timeout_s", "in_flight"):
        data["point"].pop(name, None)
        for grid in (data["sweep"], *data["variants"]):
            grid.pop(name, None)
    return parse(data, policy.point)


def _refuse_endless(runs: Sequence[RunSpec], seeds: int) -> None:
    """Raises BadInput (TL250) for more work than anybody waits for."""
    tokens = 0.0
    for run in runs:
        workload = run.workload
        assert isinstance(workload, InferenceWorkload)
        length = workload.output_tokens
        mean = length.value if isinstance(length, Fixed) else length.mean if isinstance(length, Lognormal) else 256
        tokens += (run.point.rate_per_s or 10.0) * run.protocol.duration_s * float(mean) * seeds
    if tokens > _MOST:
        raise BadInput(
            f"{len(runs)} points of {seeds} seeds make some {tokens:,.0f} tokens, and at most {_MOST:,} are simulated "
            "at once: fewer --seeds, a shorter protocol.duration_s, or fewer points", code=UNREADABLE)  # fmt: skip


def _written(
    study: Study, basis: Basis, points: Sequence[Point], policies: Sequence[Policy], out: Path
) -> tuple[Run, ...]:
    """A run folder for each repeat of each point; `policies`: of each point."""
    folder = out / f"{now_utc()}_{study.name}_simulated_{secrets.token_hex(2)}"
    facts = {"accelerator.product": basis.device} if basis.device else {}
    facts["software.runtime.name"] = "simulated"
    runs = []
    for point, policy in zip(points, policies, strict=True):
        rules = policy.rules(basis.rules)
        for repeat in point.repeats:
            spec = repeat.spec
            options = spec.executor.options | (point.fleet.options() if point.fleet is not None else {})
            options |= {"batching": policy.name} if rules.batching != "continuous" else {}
            if options != spec.executor.options:
                spec = spec.model_copy(update={"executor": spec.executor.model_copy(update={"options": options})})
            told = simulated_of(repeat.law, rules, spec.seed, repeat.stopped_s)
            runs.append(write_run(folder, spec, [repeat.played.table], told, facts))
    return tuple(runs)
