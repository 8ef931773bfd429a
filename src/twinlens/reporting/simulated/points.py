"""Document of `simulate`: the answer, a table of points with bands, what binds, and how far it may be trusted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from twinlens.record.estimate import Estimate
from twinlens.reporting.display import clean, join_names
from twinlens.reporting.document.block import DETAIL, Block, Cell, Document, Drawing, Line, Section, Table, row
from twinlens.reporting.simulated.fleet import fleet_blocks, smallest_words
from twinlens.simulation.points.basis import Basis, Binding
from twinlens.simulation.points.run_folder import NOT_MODELLED, changed
from twinlens.simulation.points.sweep import CHANGED, Point, Sweep, changes, widest
from twinlens.simulation.rules import READ_FROM
from twinlens.spec.workload.workload import InferenceWorkload
from twinlens.stats.metrics.definition import METRICS
from twinlens.units import RATIO, SECONDS, digits, scale, show

if TYPE_CHECKING:
    from twinlens.reporting.chart.figure import Figure as Chart

_COLUMNS = (
    ("ttft_s_p50", "TTFT p50"), ("ttft_s_p99", "TTFT p99"), ("tpot_s_p50", "TPOT p50"), ("tpot_s_p99", "TPOT p99"),
    ("e2e_latency_s_p99", "E2E p99"), ("output_tokens_per_s", "tokens/s"), ("busy_share", "busy"),
)  # fmt: skip
_NARROW = (5, 4)
_TERMS = {
    "fixed": "what every step costs", "rows": "requests in a step", "context": "reading the KV cache",
    "prompts": "prefill", "pairs": "attention within prompts",
}  # fmt: skip
_LIMITS = {
    "max_num_seqs": "max_num_seqs", "max_num_batched_tokens": "max_num_batched_tokens", "num_gpu_blocks": "KV blocks",
}  # fmt: skip
_LABELS = {
    "requests_per_s": "requests/s", "busy_share": "busy", "full_share": "full", "queue_s": "wait before the engine",
    "preemptions_per_request": "preemptions/request", "slo_attainment": "within SLO", "cached_share": "prompt cached",
    "output_tokens_per_s": "output tokens/s", "gathering_s": "held for a batch to fill",
    "blocked_s": "held by the last answer of a batch", "slots_s": "held for a slot",
    "prefill_busy_share": "prefill pool busy", "decode_busy_share": "decode pool busy",
    "transfer_s": "KV cache on its way", "transfer_wait_s": "of that, waiting for the link",
    "decode_queue_s": "KV cache there, before a decode step",
}  # fmt: skip
_QUANTITIES = {
    "requests_per_s": "rate", "rows": "requests in a step", "prompt_tokens": "prompts", "answer_tokens": "answers",
}  # fmt: skip


def simulation_document(found: Sweep) -> Document:
    """The answer of `simulate`."""
    return Document.of("Simulation", _subject(found), _blocks(found), "--all")


def _subject(found: Sweep) -> str:
    spec = found.points[0].spec
    on = f" · {clean(found.basis.device, 60)}" if found.basis.device else ""
    return f"SIMULATED {clean(spec.workload.model, 60)} · {spec.point.precision}{on}"


def _blocks(found: Sweep) -> Iterator[Block]:
    points, basis = found.points, found.basis
    yield Line(_subject(found), is_lead=True)
    if smallest := smallest_words(found):
        yield Line(smallest)
    yield Line(answer_words(found))
    if points:
        yield _table(points)
    yield from fleet_blocks(found)
    yield from _overload(points)
    yield from _policies(found)
    yield row("binds", list(_binds(points)), rank=3)
    yield row("law", [_law(basis), *_constants(basis)], rank=2, first=1)
    yield from _changed(found)
    yield row("distance", [distance_words(points, basis)])
    yield row("!", [clean(each, 300) for each in basis.doubts], "doubt", rank=5, apart=True)
    yield row("rules", [f"those of {READ_FROM}", *(f"{name} {value}" for name, value in changed(basis.rules).items())],
              rank=6)  # fmt: skip
    yield row("not modelled", NOT_MODELLED, "dim", rank=6)
    yield Drawing(lambda: _charts(found))
    yield row("next", [_next(found)], "strong")
    yield Section("Every figure", tuple(_every(points)))


def answer_words(found: Sweep) -> str:
    """ "10 simulations a point; within the SLO at 99 % up to 8 requests/s."."""
    seeds = len(found.points[0].repeats)
    told = f"{seeds} simulation{'' if seeds == 1 else 's'} a point, bands hold 9 of 10"
    workload = found.points[0].spec.workload
    assert isinstance(workload, InferenceWorkload)
    if workload.slo is None or found.sizes:
        return f"{told}."
    kept = [each for each in found.points if _keeps(each, workload.slo.quantile)]
    rates = [each.spec.point.rate_per_s for each in kept if each.spec.point.rate_per_s is not None]
    if rates:
        names = dict.fromkeys(each.policy for each in kept if each.spec.point.rate_per_s == max(rates))
        by = f", by {join_names(list(names))}" if len({each.policy for each in found.points}) > 1 else ""
        return f"{told}. The SLO is kept up to {max(rates):g} requests/s of those asked{by}."
    where = "every" if len(kept) == len(found.points) else "some" if kept else "no"
    return f"{told}. The SLO is kept at {where} point."


def _keeps(point: Point, quantile: float) -> bool:
    share = point.figures.get("slo_attainment")
    return share is not None and share.value is not None and share.value >= quantile


def _table(points: Sequence[Point]) -> Table:
    divisors = {name: _unit(points, name) for name, _ in _COLUMNS}
    heads = ("point", *(f"{head} {unit}".strip() for (name, head) in _COLUMNS for unit in [divisors[name][1]]))
    rows = tuple(
        (Cell(point_name(each), "doubt" if each.overloaded else ""),
         *(_cell(each.figures.get(name), divisors[name][0], head) for name, head in _COLUMNS))
        for each in points
    )  # fmt: skip
    caption = "Simulated points: the median over simulations, and the band that holds nine of ten of them."
    drop = (*_NARROW, 1, 7) if points[0].policy else _NARROW
    return Table(caption, heads, rows, ("left", *["right"] * len(_COLUMNS)), drop=drop, shrinks=True,
                 keys=("", *(name if name in METRICS else "" for name, _ in _COLUMNS)))  # fmt: skip


def _unit(points: Sequence[Point], name: str) -> tuple[float, str]:
    values = [each.figures[name].value for each in points if name in each.figures]
    known = sorted(value for value in values if value)
    unit = next((each.figures[name].unit for each in points if name in each.figures), "")
    if unit not in (SECONDS, RATIO) or not known:
        return 1.0, ""
    divisor, word = scale(unit, known[len(known) // 2])
    return divisor, word


def _cell(figure: Estimate | None, divisor: float, head: str) -> Cell:
    if figure is None or figure.value is None:
        why = figure.reason if figure else "not asked"
        return Cell("–", "doubt", why=f"{head}: {why}")
    text = digits(figure.value / divisor)
    if figure.low is None or figure.high is None:
        return Cell(text, why=f"{head}: no band: {figure.no_interval}" if figure.no_interval else "")
    return Cell(
        text, beside=_beside(figure, divisor), bounds=f"{digits(figure.low / divisor)}–{digits(figure.high / divisor)}"
    )


def _beside(figure: Estimate, divisor: float) -> str:
    """The farther end of the band over the value: "±12%", "to 3.1" beyond twice; "" where all gave the same."""
    value, low, high = figure.value or 0.0, figure.low or 0.0, figure.high or 0.0
    half = max(high - value, value - low)
    if half > value:
        return f"to {digits(high / divisor)}"
    return "" if not value or half < 5e-4 * value else f"±{digits(100 * half / value, 2)}%"


def point_name(point: Point) -> str:
    """ "8/s", "static(32) · 8/s", "16 in flight"."""
    spec = point.spec
    hard = f"{spec.point.rate_per_s:g}/s" if spec.point.rate_per_s is not None else ""
    hard = hard or (f"{spec.point.concurrency} in flight" if spec.point.concurrency else "as recorded")
    return f"{point.policy} · {hard}" if point.policy else hard


def _overload(points: Sequence[Point]) -> Iterator[Block]:
    """From which rate more come than are served, as a band; each policy's own."""
    told: dict[str, str] = {}
    for each in points:
        if each.capacity is not None and each.full is not None:
            limit = _LIMITS.get(each.full.limit, each.full.limit)
            name = each.fleet.size if each.fleet is not None else each.policy
            told.setdefault(f"{name}: " if name else "", f"{_span(each.capacity)}, where {limit} is full")
    yield row("overloaded", [f"{name}from {words}" for name, words in told.items()], apart=len(told) > 1)
    stopped = [point_name(each) for each in points if any(repeat.stopped_s is not None for repeat in each.repeats)]
    yield row("✗", [f"{join_names(stopped)}: stopped with requests under way" if stopped else ""], "doubt")


def _span(figure: Estimate) -> str:
    if figure.low is None or figure.high is None:
        return show(figure.value, figure.unit)
    return f"{digits(figure.low)}–{digits(figure.high)} {figure.unit}"


def _changed(found: Sweep) -> Iterator[Block]:
    """What the settings changed: each point over the same without them, by the same seeds and draws."""
    yield row("changed", [clean(each, 80) for each in found.changed])
    for old, new in zip(found.before, found.points, strict=bool(found.before)):
        told = [f"{_label(name)} × {_factor(changes(old, new, name))}" for name in CHANGED if name in new.figures]
        yield row(point_name(new), told, rank=1, first=4)
        steps = [each.binding.largest for each in (old, new) if each.binding is not None]
        if len(set(steps)) > 1:
            yield row("binds", [f"{point_name(new)}: {_TERMS[steps[1]]}, before {_TERMS[steps[0]]}"])


def _factor(ratio: Estimate) -> str:
    if ratio.value is None:
        return f"– ({ratio.reason})"
    if ratio.low is None or ratio.high is None:
        return digits(ratio.value)
    return f"{digits(ratio.value)} ({digits(ratio.low)}–{digits(ratio.high)})"


def _held(found: Sweep) -> Iterator[str]:
    """Of policies that hold requests back: for what they wait, at the last rate."""
    last = {each.policy: each for each in found.points if "gathering_s" in each.figures}
    for point in last.values():
        parts = {"a batch to fill": "gathering_s", "the last answer of a batch": "blocked_s", "a slot": "slots_s"}
        told = [f"{show(point.figures[key].value, SECONDS)} for {words}" for words, key in parts.items()]
        yield f"{point_name(point)}: {', '.join(told)}"


def _policies(found: Sweep) -> Iterator[Block]:
    """The policy of the lowest p99 at each rate, and where another one is."""
    yield row("held back", list(_held(found)), apart=True, rank=1)
    if not found.chosen:
        return
    label = METRICS[found.metric].label
    told = [f"{rate:g}/s: {' or '.join(map(clean, names))}" for rate, names in found.chosen.items()]
    yield row("→", [f"lowest {label} at {each}" for each in told], "strong", apart=True)
    flips = [f"from {each.below} to {each.above} between {each.from_per_s:g} and {each.to_per_s:g} requests/s"
             for each in found.turns]  # fmt: skip
    yield row("flips", flips or ["at no rate of those asked"], apart=True)


def _binds(points: Sequence[Point]) -> Iterator[str]:
    """What a step is made of at the first and the last point, and what makes requests wait."""
    shown = [each for each in (points[0], points[-1]) if each.binding is not None]
    for each in dict.fromkeys(map(point_name, shown)):
        point = next(one for one in shown if point_name(one) == each)
        assert point.binding is not None
        yield f"{each}: {step_words(point.binding)}{_waits(point)}"


def step_words(step: Binding) -> str:
    """ "a step of 14.2 ms with 3.1 requests: what every step costs 61 %, reading the KV cache 30 %"."""
    ordered = sorted(step.shares.items(), key=lambda each: -each[1])
    told = ", ".join(f"{_TERMS[name]} {share:.0%}" for name, share in ordered[:2] if share >= 0.005)
    return f"a step of {show(step.step_s, SECONDS)} that makes {digits(step.seats, 2)} tokens: {told}"


def _waits(point: Point) -> str:
    full, preempted = (point.figures[name].value or 0.0 for name in ("full_share", "preemptions_per_request"))
    told = [f"max_num_seqs is reached {full:.0%} of the time"] if full >= 0.01 else []
    told += [f"{digits(preempted, 2)} preemptions a request"] if preempted >= 0.01 else []
    return f"; {', '.join(told)}" if told else ""


def _law(basis: Basis) -> str:
    source = f" ({clean(basis.law.source, 200)})" if basis.law.source else ""
    drawn = f", {len(basis.draws)} draws of its constants" if basis.draws else ", its constants taken as they are"
    return f"{basis.law.origin}{source}{drawn}"


def _constants(basis: Basis) -> Iterator[str]:
    for part in basis.law.parts:
        known = {"fixed": part.fixed_s, "per request": part.row_s, "per cached token": part.context_s,
                 "per prompt token": part.token_s, "per pair": part.pair_s}  # fmt: skip
        yield ", ".join(f"{name} {show(value, SECONDS)}" for name, value in known.items() if value)
    if basis.law.before_s:
        yield f"before the engine {show(basis.law.before_s, SECONDS)}"


def distance_words(points: Sequence[Point], basis: Basis) -> str:
    """How far the points lie outside what was measured: "rate 4.0 × beyond what was measured"."""
    if not basis.reach:
        return "no measurement stands behind this law"
    out = widest(points)
    if not out:
        return "every point lies within what was measured"
    return ", ".join(f"{_QUANTITIES.get(name, name)} {digits(factor, 2)} × beyond what was measured"
                     for name, factor in out.items())  # fmt: skip


def _next(found: Sweep) -> str:
    if found.basis.law.origin == "fitted":
        if found.folder is None:
            return "without --dry its rows are kept, and `twinlens compare RUN FOLDER` sets a measured run beside them"
        return f"twinlens compare RUN {clean(found.folder, 200)}: where the measured and the simulated part"
    return "measure one point, and simulate with --like RUN: then the law is that of your machine"


def _every(points: Sequence[Point]) -> Iterator[Block]:
    for each in points:
        rows = tuple(
            (Cell(_label(name)), Cell("–" if figure.value is None else show(figure.value, figure.unit)),
             Cell("" if figure.low is None else f"{show(figure.low, figure.unit)} to {show(figure.high, figure.unit)}"),
             Cell(figure.reason or figure.no_interval or figure.method))
            for name, figure in each.figures.items()
        )  # fmt: skip
        heads = (point_name(each), "median", "90 % band", "how")
        yield Table(f"Every figure of {point_name(each)}.", heads, rows, ("left", "right", "left", "left"),
                    rank=DETAIL, remarks=True)  # fmt: skip


def _label(name: str) -> str:
    if name in _LABELS:
        return _LABELS[name]
    known = METRICS.get(name)
    stem, _, which = name.rpartition("_")
    words = {"ttft_s": "TTFT", "tpot_s": "TPOT", "e2e_latency_s": "E2E"}
    return known.label if known else f"{words.get(stem, stem)} {which}"


def _charts(found: Sweep) -> Sequence[Chart]:
    from twinlens.reporting.simulated.chart import rate_charts, slot_chart  # charts are heavy

    last = {each.policy: each for each in found.points}  # of each policy, the highest load asked
    slots = [chart for place, each in enumerate(last.values()) if (chart := slot_chart(each, place)) is not None]
    rates = [] if found.sizes else rate_charts(found.points, found.metric)  # a search has each fleet at one rate
    return [*rates, *slots]
