"""Document of mixed work: what training adds to serving over a day, with requests and steps in tables of their own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from twinlens.reporting.display import clean
from twinlens.reporting.document.block import Block, Cell, Document, Drawing, Line, Notes, Table, row
from twinlens.reporting.simulated.training import cell, time_unit, time_words
from twinlens.simulation.training.day import Turn
from twinlens.simulation.training.mix import Mix, Share, period_words
from twinlens.stats.metrics.definition import METRICS
from twinlens.units import DAY_S, RATIO, SECONDS, digits, scale, show

if TYPE_CHECKING:
    from twinlens.reporting.chart.figure import Figure as Chart

_NAMES = {"apart": "apart", "by-hour": "by the hour", "together": "together"}
_WAYS = {
    "apart": "apart: each device serves or trains all day",
    "by-hour": "by the hour: devices that serving does not need in a period train in it",
    "together": "together: every device does both at once",
}


def mixed_document(found: Mix) -> Document:
    """The answer of `simulate SERVING --with TRAINING`."""
    return Document.of("Simulated mixed work", _subject(found), _blocks(found), "--all")


def _subject(found: Mix) -> str:
    serving, training = found.spec, found.training.spec
    on = f" · {clean(found.basis.device, 60)}" if found.basis.device else ""
    return f"SIMULATED {clean(serving.workload.model, 60)} served · {clean(training.workload.model, 60)} trained{on}"


def _blocks(found: Mix) -> Iterator[Block]:
    yield Line(_subject(found), is_lead=True)
    yield Line(answer_words(found))
    yield _serving(found)
    yield _training(found)
    yield Notes()
    yield row("ways", [_WAYS[each.way] for each in found.ways], "dim", rank=4, apart=True)
    yield row("a device", [f"serves {digits(found.served_per_s)} requests/s within the SLO in the whole band",
                           f"trains a step in {show(found.training.course.step_s, SECONDS)}"], rank=2)  # fmt: skip
    yield row("flips", list(_flips(found)), apart=True, rank=1)
    yield row("!", list(_doubts(found)), "doubt", rank=3, apart=True)
    yield row("law", [f"serving {found.basis.law.origin} ({clean(found.basis.law.source, 120)})",
                      f"training {found.training.known.origin} ({clean(found.training.course.source, 120)})"],
              rank=5)  # fmt: skip
    yield Drawing(lambda: _charts(found))


def answer_words(found: Mix) -> str:
    """ "Training on devices that serving leaves idle adds 41,000 steps a day: 1,000,000 are done in 24 days."."""
    share = next(each for each in found.ways if each.way == "by-hour")
    devices = share.outcome.devices
    where = f"the {devices} device{'' if devices == 1 else 's'} that serve{'s' if devices == 1 else ''}"
    if share.finish.value is None:
        return f"Training by the hour on {where} adds nothing: serving needs all of them in every period."
    return (f"Training by the hour on {where} adds {_band_words(share)} steps a day: "
            f"{found.training.course.steps:,} are done in {time_words(share.finish)}.")  # fmt: skip


def _band_words(share: Share) -> str:
    steps = share.steps
    ends = "" if steps.low is None or steps.high is None or steps.high - steps.low < 2e-3 * (steps.value or 1.0) else (
        f" ({digits(steps.low)}–{digits(steps.high)})")  # fmt: skip
    return f"{digits(steps.value or 0.0)}{ends}"


def _serving(found: Mix) -> Table:
    worst = [each.worst for each in found.ways]
    known = sorted(each.value for each in worst if each is not None and each.value is not None)
    divisor, unit = scale(SECONDS, known[0]) if known else (1.0, "s")
    heads = ("requests", "devices", "served %", f"{METRICS[found.metric].label}, worst period {unit}")
    rows = tuple(
        (Cell(_NAMES[each.way]), Cell(str(each.outcome.devices)), Cell(digits(100 * each.outcome.served_share)),
         Cell("–") if figure is None else cell(figure, divisor))
        for each, figure in zip(found.ways, worst, strict=True)
    )  # fmt: skip
    caption = "Serving: requests of the day that are served, and the latency in the period in which it is longest."
    return Table(caption, heads, rows, ("left", "right", "right", "right"))


def _training(found: Mix) -> Table:
    known = [each.finish.value for each in found.ways if each.finish.value is not None]
    divisor, unit = time_unit(min(known)) if known else (DAY_S, "days")
    heads = ("training", "devices", "steps a day", f"done in {unit}", "switches a day")
    rows = tuple(
        (Cell(_NAMES[each.way]), Cell(str(each.outcome.devices)), cell(each.steps, 1.0), cell(each.finish, divisor),
         Cell(str(each.outcome.switches)))
        for each in found.ways
    )  # fmt: skip
    caption = "Training: steps of one device in a day, and the time until all that were asked are done."
    return Table(caption, heads, rows, ("left", "right", "right", "right", "right"))


def _flips(found: Mix) -> Iterator[str]:
    apart, hours = (next(each for each in found.ways if each.way == way) for way in ("apart", "by-hour"))
    steps = hours.steps.value or 0.0
    if steps and apart.outcome.devices > hours.outcome.devices:
        days = found.training.course.steps / steps
        yield (f"up to {digits(steps)} steps a day ({found.training.course.steps:,} in {digits(days)} days) need no "
               "device more than serving; to be done sooner takes one of its own")  # fmt: skip
    if found.within_s is None:
        return
    divisor, unit = time_unit(found.within_s)
    yield f"within {digits(found.within_s / divisor)} {unit}: " + ", ".join(
        f"{each.needs.devices} devices {_NAMES[each.way]}" for each in found.ways if each.needs is not None
    )
    yield from (f"{_NAMES[each.way]} {_turn_words(each.turn)}" for each in found.ways if each.turn is not None)


def _turn_words(turn: Turn) -> str:
    """ "needs fewer devices than apart from 0.4 to 1.3 × the requests"."""
    ends = [None if end is None else digits(end) for end in (turn.below, turn.above)]
    if turn.saves:
        where = f"from {ends[0]} × the requests" if ends[0] else "however few the requests"
        return f"needs fewer devices than apart, {where} {f'to {ends[1]} × them' if ends[1] else 'on'}"
    other = [f"below {ends[0]} ×" if ends[0] else "", f"above {ends[1]} ×" if ends[1] else ""]
    where = " and ".join(filter(None, other))
    return f"needs no fewer devices than apart{f'; it does {where} the requests' if where else ', whatever the rate'}"


def _doubts(found: Mix) -> Iterator[str]:
    if found.slowdowns is None:
        yield ("together on one device: not measured how much each slows the other; measure it, and --set "
               "serving_slowdown=1.2 --set training_slowdown=3")  # fmt: skip
    elif all(each.way != "together" for each in found.ways):
        yield f"together: a step that takes {found.slowdowns[0]:g} × as long keeps the SLO at no rate"
    if found.switch_s is None:
        yield "how long a device takes from serving to training is not said (--set switch=60s): no time here"
    if len(found.day.rate_per_s) == 1:
        yield "the rate is the same all day: --day 0.2,1,0.6 says how it changes"
    yield from (clean(each, 300) for each in (*found.basis.doubts, *found.training.known.doubts))


def _charts(found: Mix) -> Sequence[Chart]:
    import altair as alt

    from twinlens.reporting.chart.figure import WIDTH, data, figure
    from twinlens.reporting.palette import PART_COLOURS

    share = next(each for each in found.ways if each.way == "by-hour")
    serving = share.outcome.serving
    if len(serving) < 2:
        return []
    rows: list[dict[str, Any]] = []
    for place, (name, serves) in enumerate(period_words(found.day, serving.tolist())):
        trains = share.outcome.devices - serves
        rows += [{"from": place * found.day.period_s / 3600, "to": (place + 1) * found.day.period_s / 3600, "low": low,
                  "high": high, "what": what, "period": name}
                 for what, low, high in (("serve", 0.0, serves), ("train", serves, serves + trains))]  # fmt: skip
    marks = list(range(0, share.outcome.devices + 1, max(1, share.outcome.devices // 5)))
    hues = alt.Scale(domain=["serve", "train"], range=[PART_COLOURS[1], PART_COLOURS[4]])
    chart = alt.Chart(data(rows)).mark_rect(stroke="white").encode(
        x=alt.X("from:Q", title="hour of the day", scale=alt.Scale(domain=[0, 24], nice=False),
                axis=alt.Axis(values=[0, 6, 12, 18, 24])),
        x2="to:Q", y=alt.Y("low:Q", title="devices", axis=alt.Axis(values=marks, format="d")), y2="high:Q",
        color=alt.Color("what:N", scale=hues, legend=alt.Legend(title=None, orient="top")),
    )  # fmt: skip
    idle = float(np.mean(share.outcome.devices - serving)) / share.outcome.devices
    title = f"By the hour, {show(idle, RATIO)} of the devices' time is left for training."
    caption = "Devices that serve in each period, as many as keep the SLO, and those that train meanwhile."
    return [figure("simulated-day", chart.properties(width=WIDTH, height=200), title, caption)]
