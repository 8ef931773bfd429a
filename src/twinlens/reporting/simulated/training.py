"""Document of a simulated training: when it ends, where its time goes, how often to save, and what a change does."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from twinlens.record.estimate import Estimate
from twinlens.reporting.display import clean
from twinlens.reporting.document.block import (
    DETAIL,
    Bar,
    Bars,
    Block,
    Cell,
    Document,
    Drawing,
    Line,
    Notes,
    Section,
    Share,
    Shares,
    Table,
    row,
)
from twinlens.simulation.training.forecast import ACCOUNT, Forecast, Forecasts, over
from twinlens.simulation.training.rows import NOT_MODELLED
from twinlens.simulation.training.run_folder import RULES_FROM
from twinlens.simulation.training.steps import Measured
from twinlens.units import DAY_S, RATIO, SECONDS, digits, scale, show

if TYPE_CHECKING:
    from twinlens.reporting.chart.figure import Figure as Chart

NAMES = {
    "compute": "computing", "communication": "communication", "bubble": "bubble", "untold": "steps",
    "slowest": "the slowest rank", "data": "data", "saves": "saves", "evaluation": "evaluation", "startup": "start",
    "restart": "restarts", "repeat": "work done again",
}  # fmt: skip
_LACKS = {
    "save": "what a save takes", "restart": "what a restart takes", "startup": "the start", "data": "waiting for data",
    "evaluate": "looks at held-out data",
}  # fmt: skip


def training_document(found: Forecasts) -> Document:
    """The answer of `simulate` of a training spec."""
    return Document.of("Simulated training", _subject(found), _blocks(found), "--all")


def _subject(found: Forecasts) -> str:
    one = found.points[0]
    on = f" · {clean(one.known.device, 60)}" if one.known.device else ""
    names = dict.fromkeys(each.spec.point.precision for each in found.points)
    return f"SIMULATED {clean(one.spec.workload.model, 60)} · {', '.join(names)}{on}"


def _blocks(found: Forecasts) -> Iterator[Block]:
    one = found.points[0]
    yield Line(_subject(found), is_lead=True)
    yield Line(answer_words(found))
    yield _table(found)
    yield Notes()
    for each in found.points:
        yield _account(each, found)
    yield row("saves", list(_saves(found.points[-1])), rank=1)
    yield from _changed(found)
    yield row("step", list(_step(found.points[-1])), rank=3)
    yield row("law", [_law(each) for each in found.points[:1]], rank=2)
    yield row("!", list(dict.fromkeys(clean(each, 300) for one in found.points for each in one.known.doubts)), "doubt",
              rank=5, apart=True)  # fmt: skip
    yield row("not known", [f"{_LACKS[name]}: it takes no time here" for name in one.known.lacks], "dim", rank=5)
    yield row("not modelled", NOT_MODELLED, "dim", rank=6)
    yield row("rules", [RULES_FROM], "dim", rank=7)
    yield _bars(found)
    yield Drawing(lambda: _charts(found))
    yield row("next", [_next(found)], "strong")
    yield Section("Every figure", tuple(_every(found)))


def answer_words(found: Forecasts) -> str:
    """ "Done in 4.2 days (3.9–4.6) by 10 simulations; bands hold 9 of 10. 91 % of it trains."."""
    one = found.points[0]
    seeds = len(one.found.each)
    told = f"{seeds} simulation{'' if seeds == 1 else 's'}{' a point' if len(found.points) > 1 else ''}"
    told += ", bands hold 9 of 10" if seeds > 1 else ", which has no band"
    best = min(found.points, key=lambda each: each.found.wall.value or 0.0)
    name = f", {point_name(best, found)}" if len(found.points) > 1 else ""
    return (f"{one.course.steps:,} steps are done in {time_words(best.found.wall)}{name}; "
            f"{show(best.found.productive.value, RATIO)} of it trains. {told}.")  # fmt: skip


def time_words(figure: Estimate) -> str:
    """ "4.2 days (3.9–4.6)"."""
    if figure.value is None:
        return f"a time that is not known ({figure.reason})"
    divisor, unit = time_unit(figure.value)
    band = ""
    if figure.low is not None and figure.high is not None and figure.high - figure.low > 2e-3 * figure.value:
        band = f" ({digits(figure.low / divisor)}–{digits(figure.high / divisor)})"
    return f"{digits(figure.value / divisor)} {unit}{band}"


def time_unit(seconds: float) -> tuple[float, str]:
    """Days from two of them on; else as all times are shown."""
    return (DAY_S, "days") if seconds >= 2 * DAY_S else scale(SECONDS, seconds)


def point_name(one: Forecast, found: Forecasts) -> str:
    """ "64 ranks"; of several precisions "bf16 · 64 ranks"; of a table's pipeline "4 stages"."""
    known = one.known
    name = f"{known.ranks:,} rank{'' if known.ranks == 1 else 's'}"
    if known.passes is not None and known.origin == "quoted":
        copies = f" × {known.ranks:,}" if known.ranks > 1 else ""
        name = f"{len(known.passes.held)} stages{copies}"
    several = len({each.spec.point.precision for each in (*found.points, *found.before)}) > 1
    return f"{one.spec.point.precision} · {name}" if several else name


def rows_of(found: Forecasts) -> Iterator[tuple[str, Forecast]]:
    """Each point, after the same without what was changed."""
    for place, each in enumerate(found.points):
        if found.before:
            yield f"{point_name(found.before[place], found)}, before", found.before[place]
        yield f"{point_name(each, found)}{', changed' if found.before else ''}", each


def _table(found: Forecasts) -> Table:
    named = list(rows_of(found))
    divisor, unit = time_unit(max(each.found.wall.value or 0.0 for _, each in named))
    has_tokens = named[0][1].tokens_per_s.value is not None
    heads = ("point", f"done in {unit}", "productive %", "tokens/s" if has_tokens else "samples/s", "failures")
    rows = tuple(
        (Cell(name), cell(each.found.wall, divisor), cell(each.found.productive, 0.01),
         cell(each.tokens_per_s if has_tokens else each.samples_per_s, 1.0), _count(each.found.failures))
        for name, each in named
    )  # fmt: skip
    caption = "Simulated training: the median over simulations, and the band that holds nine of ten of them."
    return Table(caption, heads, rows, ("left", *["right"] * 4), shrinks=True)


def _count(figure: Estimate) -> Cell:
    """A whole number with the ends of its band."""
    if figure.value is None or figure.low is None or figure.high is None or figure.low == figure.high:
        return Cell("–" if figure.value is None else f"{figure.value:.0f}")
    return Cell(f"{figure.value:.0f}", beside=f"{figure.low:.0f}–{figure.high:.0f}")


def cell(figure: Estimate, divisor: float) -> Cell:
    """A figure with the farther end of its band."""
    if figure.value is None:
        return Cell("–", "doubt", why=figure.reason or "")
    text = digits(figure.value / divisor)
    if figure.low is None or figure.high is None:
        return Cell(text, why=f"no band: {figure.no_interval}" if figure.no_interval else "")
    half = max(figure.high - figure.value, figure.value - figure.low)
    if not figure.value or half < 5e-4 * figure.value:
        return Cell(text)
    beside = f"±{digits(100 * half / figure.value, 2)}%"
    return Cell(text, beside=beside, bounds=f"{digits(figure.low / divisor)}–{digits(figure.high / divisor)}")


def _account(one: Forecast, found: Forecasts) -> Shares:
    """Where the wall time goes, the larger first."""
    known = {name: one.account[name].value or 0.0 for name in ACCOUNT}
    shown = sorted((name for name in ACCOUNT if known[name] >= 5e-4), key=lambda name: -known[name])
    names = NAMES | {"untold": "other work of steps"} if known["compute"] else NAMES
    parts = tuple(
        Share(names[name], known[name], f"{100 * known[name]:.1f} %", f"{100 * known[name]:.1f} %",
              None if name == "untold" else ACCOUNT.index(name))
        for name in shown
    )  # fmt: skip
    what = "the wall time" if len(found.points) == 1 else point_name(one, found)
    return Shares("time", what, parts, rank=1)


def _saves(one: Forecast) -> Iterator[str]:
    course, saves = one.course, one.saves
    if not course.save_every:
        yield "none"
        return
    yield f"every {course.save_every:,} steps, some {show(course.save_every * course.step_s, SECONDS)}"
    if saves is None:
        return
    best = saves.best
    known = f"best every {time_words(best)} of steps, by trying"
    yield known if best.value else f"the best is not known: {best.reason}"
    for name, closed in (("Daly", one.daly), ("Young", one.young)):
        if closed is not None and closed.value is not None:
            yield f"{name} {show(closed.value, SECONDS)}"


def _changed(found: Forecasts) -> Iterator[Block]:
    """What the settings changed: each point over the same without them, by the same seeds and constants."""
    yield row("changed", [clean(each, 80) for each in found.changed])
    for old, new in zip(found.before, found.points, strict=bool(found.before)):
        ratios = over(old, new)
        rate = "tokens/s" if new.tokens_per_s.value is not None else "samples/s"
        yield row(point_name(new, found), [f"time to finish × {factor_words(ratios['wall_s'])}",
                                    f"{rate} × {factor_words(ratios['samples_per_s'])}"], rank=1)  # fmt: skip


def factor_words(ratio: Estimate) -> str:
    """ "0.82 (0.80–0.85)"."""
    if ratio.value is None:
        return f"– ({ratio.reason})"
    if ratio.low is None or ratio.high is None or ratio.high - ratio.low < 2e-3 * ratio.value:
        return digits(ratio.value)
    return f"{digits(ratio.value)} ({digits(ratio.low)}–{digits(ratio.high)})"


def _step(one: Forecast) -> Iterator[str]:
    known, step = one.known, one.known.step
    yield f"{show(known.course.step_s, SECONDS)} on {known.ranks:,} rank{'' if known.ranks == 1 else 's'}"
    yield f"{step.samples:,} sequences, {step.tokens:,} tokens" if step.tokens else f"{step.samples:,} images"
    if known.passes is not None:
        yield f"the stages of its pipeline wait {known.passes.idle_share:.1%} of its passes"


def _law(one: Forecast) -> str:
    times = one.course.times
    source = f"{one.known.origin} ({clean(one.course.source, 200)})" if one.course.source else one.known.origin
    if isinstance(times, Measured):
        many = sum(map(len, times.runs_s))
        return f"{source}: {many:,} measured steps, drawn {times.block} at a time"
    return f"{source}: a step of {show(times.mean_s, SECONDS)}" + (f", jitter {times.cv:.1%}" if times.cv else "")


def _next(found: Forecasts) -> str:
    if found.folder is not None:
        return f"twinlens show {clean(str(found.folder), 200)}: its rows, as those of a measured training"
    if found.points[0].known.origin == "fitted":
        return "without --dry its rows are kept, and `twinlens show FOLDER` reads them as those of a measured training"
    return "measure a few minutes, and simulate with --like RUN: then the steps are those of your machine"


def _bars(found: Forecasts) -> Bars:
    named = list(rows_of(found))
    bars = tuple(Bar(name, each.found.wall, time_words(each.found.wall)) for name, each in named)
    title = f"{point_name(named[-1][1], found)}: done in {time_words(named[-1][1].found.wall)}."
    caption = "Time to finish: the median over simulations, and the band that holds nine of ten of them."
    return Bars(bars, title, caption)


def _charts(found: Forecasts) -> Sequence[Chart]:
    from twinlens.reporting.simulated.training_chart import pipeline_chart, save_chart  # charts are heavy

    last = found.points[-1]
    drawn = [save_chart(last)] + [pipeline_chart(each, place) for place, (_, each) in enumerate(rows_of(found))]
    return [each for each in drawn if each is not None]


def _every(found: Forecasts) -> Iterator[Block]:
    for name, each in rows_of(found):
        figures = {"time to finish": each.found.wall, "productive": each.found.productive,
                   "failures": each.found.failures, "tokens/s": each.tokens_per_s,
                   "samples/s": each.samples_per_s}  # fmt: skip
        figures |= {f"share: {NAMES[part]}": each.account[part] for part in ACCOUNT}
        closed = {"Daly's time between saves": each.daly, "Young's time between saves": each.young}
        figures |= {label: figure for label, figure in closed.items() if figure is not None}
        figures |= {"best time between saves": each.saves.best} if each.saves is not None else {}
        rows = tuple(
            (Cell(label), Cell("–" if figure.value is None else show(figure.value, figure.unit)),
             Cell("" if figure.low is None else f"{show(figure.low, figure.unit)} to {show(figure.high, figure.unit)}"),
             Cell(figure.reason or figure.no_interval or figure.method))
            for label, figure in figures.items()
        )  # fmt: skip
        heads = (name, "median", "band", "how")
        yield Table(f"Every figure of {name}.", heads, rows, ("left", "right", "left", "left"), rank=DETAIL,
                    remarks=True)  # fmt: skip
