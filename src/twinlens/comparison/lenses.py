"""Tables of one study: training beside inference, a runtime beside its kernels, and switches beside each other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from twinlens.comparison.effect import Effect
from twinlens.comparison.side import Side
from twinlens.comparison.verdict import Comparison, compare
from twinlens.errors import BadInput
from twinlens.record.estimate import Estimate
from twinlens.record.finding import Finding
from twinlens.stats.estimator.ratio import difference_of_runs, ratio_of_runs
from twinlens.stats.estimator.repeats import widened, widened_difference
from twinlens.stats.paired.slice_rate import Rates
from twinlens.stats.summary.serving import is_served


@dataclass(frozen=True, slots=True)
class LensRow:
    """One change of one model, such as bf16 against fp32; None in a lens in which no such pair was measured."""

    model: str
    change: str
    training: Comparison | None
    inference: Comparison | None


def lens_rows(comparisons: Sequence[Comparison]) -> tuple[LensRow, ...]:
    """A row for each change, in the order given; several pairs of one lens and one change are a row each.

    A change is two precisions, or two folders of one precision; of two machines it says both.
    """
    found: dict[tuple[str, str], dict[str, list[Comparison]]] = {}
    for each in comparisons:
        if each.a.lens == each.b.lens:
            found.setdefault((each.b.group.model, change_of(each)), {}).setdefault(each.a.lens, []).append(each)
    rows: list[LensRow] = []
    for (model, change), lenses in found.items():
        training, inference = lenses.get("training", []), lenses.get("inference", [])
        rows += [LensRow(model, change, *pair) for pair in zip_longest(training, inference)]
    return tuple(rows)


def change_of(each: Comparison) -> str:
    """The change that a pair is about: "bf16 against fp32", "bf16 · after against before"; of two machines, both."""
    a, b = each.a.group, each.b.group
    precisions = [str(group.point["precision"]) for group in (b, a)]
    same = precisions[0] == precisions[1]
    folders = f"{each.b.folder} against {each.a.folder}" if each.a.folder != each.b.folder else ""
    told = precisions[0] if same else " against ".join(precisions)
    machines = [group.machine.name if group.machine else "unknown" for group in (b, a)]
    ids = {group.machine.id if group.machine else None for group in (a, b)}
    where = "" if len(ids) == 1 else " against ".join(machines)
    return " · ".join(filter(None, (told, folders, where)))


# Switches of a server: the default against each change, in latency, throughput and memory.

SHOWN = ("ttft_s_p50", "tpot_s_p50", "output_tokens_per_s", "peak_bytes")
"""What a switch is judged by: a column of the table for each."""


@dataclass(frozen=True, slots=True)
class SwitchRow:
    """One point that differs from the default in some switches, and how it compares with it."""

    change: Mapping[str, Any]
    comparison: Comparison

    @property
    def effects(self) -> dict[str, Effect]:
        """The effect in each of `SHOWN` that both sides have."""
        return {each.metric: each for each in self.comparison.effects if each.metric in SHOWN}


def switch_rows(chosen: Sequence[Side], rates: Mapping[str, Rates]) -> tuple[SwitchRow, ...]:
    """A row for each point that has a default of the same model, machine and load; none where no points differ in a
    switch."""
    defaults = {_place(side): side for side in reversed(chosen) if side.group.switches == {}}
    changed = [side for side in chosen if side.group.switches and _place(side) in defaults]
    return tuple(SwitchRow(side.group.switches or {}, compare(defaults[_place(side)], side, rates)) for side in changed)


def _place(side: Side) -> tuple[str, ...]:
    group = side.group
    return side.lens, group.model, group.tag, str(sorted(group.point.items(), key=str))


# The same model in two runtimes: the share of a token's time that its kernels take, and what scheduler and HTTP add.
#
# The engine in this process runs the model with nothing around it. Its time for a prefill and for a decode step, over
# the time that a client waits for the same from a server at the same number in flight, is the kernels' share.

METRICS = ("ttft_s_p50", "tpot_s_p50")
_SAME_KERNELS = ("transformers-serve",)  # torch and transformers, as the engine in this process
_FACTS = ("model.parameters", "software.framework.threads")


@dataclass(frozen=True, slots=True)
class Share:
    """One latency. `share`: engine over served; `rest`: served less engine, in seconds: scheduler, HTTP, tokenising."""

    metric: str
    engine: Estimate
    served: Estimate
    share: Estimate
    rest: Estimate


@dataclass(frozen=True, slots=True)
class RuntimeShares:
    """One served point beside the engine at the same number in flight; `findings`: what stands against the split."""

    engine: Side
    served: Side
    shares: tuple[Share, ...]
    findings: tuple[Finding, ...]

    def __json__(self) -> dict[str, Any]:
        """A plain mapping."""
        return {
            "engine": self.engine.name, "served": self.served.name, "model": self.served.group.model,
            "point": self.served.group.point, "shares": self.shares,
            "findings": self.findings,
        }  # fmt: skip


def runtime_shares(sides: Sequence[Side]) -> tuple[RuntimeShares, ...]:
    """One for each served point that has an engine-level counterpart. Raises BadInput (TL225) where none has."""
    inference = [side for side in sides if side.lens == "inference"]
    engines = [side for side in inference if not is_served(side.runs[0])]
    servers = [side for side in inference if is_served(side.runs[0])]
    if not engines or not servers:
        lacking = "engine-level run" if not engines else "served run"
        raise BadInput(
            f"the share of kernels needs an engine-level run and a served run of one model, and there is no {lacking}; "
            f"measure the same lengths with both, the server at --at concurrency=1",
            code="TL225",
        )
    pairs = [(engine, server) for server in servers for engine in engines if not _differing(engine, server)]
    if not pairs:
        fields = ", ".join(_differing(engines[0], servers[0]))
        raise BadInput(
            f"{servers[0].name} differs from {engines[0].name} in {fields}: the share of kernels is of the same work; "
            f"measure one of them as the other was",
            code="TL225",
        )
    return tuple(_shares(engine, server) for engine, server in pairs)


def _differing(engine: Side, server: Side) -> list[str]:
    """What differs of all that must be the same. Weights may: made from a seed, they are no slower or faster."""
    asked, served = engine.spec, server.spec
    pairs = {
        "machine": [side.group.machine.id if side.group.machine else None for side in (engine, server)],
        "precision": [side.group.point["precision"] for side in (engine, server)],
        "requests in flight": [asked["point"]["batch"], served["point"]["concurrency"]],
        "input tokens": [each["workload"]["input_tokens"] for each in (asked, served)],
        "output tokens": [each["workload"]["output_tokens"] for each in (asked, served)],
    } | {name: [_fact(side, name) for side in (engine, server)] for name in _FACTS}  # fmt: skip
    return [name for name, (a, b) in pairs.items() if a != b]


def _fact(side: Side, name: str) -> Any:
    facts = side.runs[0].facts
    return facts.executor.value(name) if facts else None


def _shares(engine: Side, server: Side) -> RuntimeShares:
    shares = tuple(
        _share(name, engine, server)
        for name in METRICS
        if name in engine.group.metrics and name in server.group.metrics
    )
    return RuntimeShares(engine, server, shares, tuple(_findings(engine, server, shares)))


def _share(name: str, engine: Side, server: Side) -> Share:
    ours, theirs = ([e.value for run in side.group.runs if (e := run.metrics.get(name)) and e.value]
                    for side in (engine, server))  # fmt: skip
    rest = difference_of_runs(theirs, ours, unit="s")
    a, b = engine.group.metrics[name], server.group.metrics[name]
    share = widened(ratio_of_runs(ours, theirs), a.hidden, b.hidden)
    return Share(name, a, b, share, widened_difference(rest, b, a))


def _findings(engine: Side, server: Side, shares: Sequence[Share]) -> Iterator[Finding]:
    kind = server.spec["executor"]["kind"]
    if kind not in _SAME_KERNELS:
        yield Finding("kernels-differ", "warns", "", {"runtime": kind})
    for each in shares:
        if each.share.value is not None and each.share.value > 1:
            yield Finding("no-kernel-share", "warns", each.metric, {"ratio": each.share.value}, {"share": each.share})
    for letter, side in (("A", engine), ("B", server)):
        if not side.group.ranked:
            state, label, because = side.group.fault
            numbers = {"side": letter, "name": side.name, "state": state, "label": label}
            yield Finding("side-not-ranked", "warns", "", numbers, because=because)
