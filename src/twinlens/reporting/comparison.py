"""Parts of a comparison that a terminal and a page show alike: sides, rows of effects, the verdict in words."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace

from twinlens.comparison.effect import Effect, headline
from twinlens.comparison.side import Side
from twinlens.comparison.verdict import Comparison
from twinlens.reporting import display
from twinlens.reporting.view import runs_word
from twinlens.reporting.wording.comparison import effect_words, label_of
from twinlens.reporting.wording.number import percent

HEADS = ("A", "B", "B / A", "95% interval", "could show")
LEGEND = (
    "B / A: ratio of the means over runs, or from slices by turns; its interval is its own. could show: a smaller "
    "change would hide in these runs."
)
_FIRST = {
    "training": (
        "training_tokens_per_s", "training_images_per_s", "training_samples_per_s", "step_s_p50",
        "step_s_p99", "mfu", "peak_bytes", "final_loss", "time_to_target_s", "energy_per_token_j",
    ),
    "inference": (
        "output_tokens_per_s", "inference_images_per_s", "goodput_per_s", "slo_attainment", "ttft_s_p50",
        "ttft_s_p99", "tpot_s_p50", "tpot_s_p99", "e2e_latency_s_p50", "e2e_latency_s_p99", "failed_share",
        "peak_bytes", "top1_agreement", "energy_per_output_token_j",
    ),
    "collective": (
        "bus_bytes_per_s", "algorithm_bytes_per_s", "exchanges_per_s", "exchange_s_p50", "exchange_s_p90",
        "exchange_s_p99",
    ),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Row:
    """One metric: its label and the cells under `HEADS`. `is_apart`: the two sides can be told apart in it."""

    metric: str
    label: str
    cells: tuple[str, ...]
    is_apart: bool


def verdict_words(comparison: Comparison) -> str:
    """ "Comparable with qualifiers. tokens/s: B is 2.09× A (2.01–2.17×)."."""
    verdict = comparison.verdict
    first = first_effect(comparison)
    words = f"{verdict[:1].upper()}{verdict[1:]}."
    return f"{words} {effect_words(first)}." if first is not None and verdict.startswith("comparable") else words


def first_effect(comparison: Comparison) -> Effect | None:
    """The effect that is said first: that of the metric which stands first at such a load."""
    metric = headline(comparison.a)
    return next((each for each in comparison.effects if each.metric == metric), None)


def side_words(side: Side) -> str:
    """ "bf16 · AMD EPYC, 2 processors · torch 2.13.0+cpu · 5 runs, not valid"."""
    machine = side.group.machine
    parts = [side.name, *((machine.name, machine.software) if machine else ()), runs_word(len(side.runs))]
    return display.clean(" · ".join(parts), 200) + (
        "" if side.group.validity == "valid" else f", {side.group.validity}"
    )


def subject_words(comparison: Comparison) -> str:
    """ "Training · demo-34m", or of both sides where they have not even that in common."""
    sides = dict.fromkeys((side.lens, side.group.model) for side in (comparison.a, comparison.b))
    return " against ".join(display.clean(f"{lens.capitalize()} · {model}", 60) for lens, model in sides)


def rows_of(comparison: Comparison, *, whole: bool = False) -> tuple[Row, ...]:
    """The metrics that tables show first, or all of them; none that neither side measured."""
    return tuple(_row(each) for each in (_known(comparison) if whole else first_rows(comparison)))


def first_rows(comparison: Comparison) -> tuple[Effect, ...]:
    """The effects that tables and charts show first, in their order; none that neither side measured."""
    order = _FIRST[comparison.a.lens]
    shown = (each for each in _known(comparison) if each.metric in order)
    return tuple(sorted(shown, key=lambda each: order.index(each.metric)))


def _known(comparison: Comparison) -> list[Effect]:
    return [each for each in comparison.effects if each.a.value is not None or each.b.value is not None]


def not_measured_words(comparison: Comparison) -> str:
    """The metrics of the table that neither side has, with the reason of the first."""
    order = _FIRST[comparison.a.lens]
    absent = [each for each in comparison.effects if each.metric in order and each.a.value is each.b.value is None]
    if not absent:
        return ""
    names = display.join_names([label_of(each.metric) for each in absent], 4)
    return f"not measured: {names} ({display.absence(absent[0].a)})"


def _row(effect: Effect) -> Row:
    ratio, gap = effect.ratio, effect.difference
    by_ratio = ratio.value is not None
    size = display.factor(ratio) if by_ratio else _signed(gap.value, display.value(gap))
    bounds = display.factor_bounds(ratio) if by_ratio else display.bounds(gap)
    shows = "" if effect.smallest is None else percent(effect.smallest) if effect.smallest > 1e-4 else "<0.01 %"
    label = label_of(effect.metric)
    show = display.bare if says_unit(label, effect.a.unit) else display.value
    cells = (show(effect.a), show(effect.b), size, bounds or display.ABSENT, shows or display.ABSENT)
    return Row(effect.metric, label, cells, bool(effect.apart))


def says_unit(label: str, unit: str) -> bool:
    """Whether a label has the unit as a word of its own: "tokens/s" of "output tokens/s", not "s" of "step"."""
    return unit in label.split()


def _signed(value: float | None, text: str) -> str:
    return f"+{text}" if value is not None and value > 0 else text


def verdict_counts(comparisons: Sequence[Comparison]) -> str:
    """ "3 comparisons: 2 comparable with qualifiers, 1 not comparable."."""
    verdicts = [each.verdict for each in comparisons]
    counts = ", ".join(f"{verdicts.count(verdict)} {verdict}" for verdict in dict.fromkeys(verdicts))
    return f"{len(verdicts)} comparisons: {counts}."


def short_pair(one: Side, other: Side) -> tuple[str, str]:
    """Both names in columns: where they are too long without the parts that they share, and where they would be cut to
    the same without the end that their folders share."""
    short = short_name(one), short_name(other)
    if short != (one.name, other.name) and (told := _apart(one.name, other.name)) is not None:
        return told
    if short[0] != short[1] or one.name == other.name:
        return short
    folders = [side.name.rpartition(" · ")[0] for side in (one, other)]
    pairs = zip(*(reversed(folder) for folder in folders), strict=False)
    shared = sum(1 for _ in itertools.takewhile(lambda letters: letters[0] == letters[1], pairs))
    cut = [
        replace(side, name=f"{folder[: len(folder) - shared]}…{side.name[len(folder) :]}")
        for side, folder in zip((one, other), folders, strict=True)
    ]
    return short_name(cut[0]), short_name(cut[1])


def _apart(one: str, other: str, most: int = 18) -> tuple[str, str] | None:
    """The parts of two points' names that differ; None where there are none, or where they are too long themselves."""
    parts = one.split(" · "), other.split(" · ")
    if len(parts[0]) != len(parts[1]) or len(parts[0]) < 3:  # a folder and a precision: see `short_name`
        return None
    differ = [place for place, (mine, yours) in enumerate(zip(*parts, strict=True)) if mine != yours]
    a, b = (" · ".join(side[place] for place in differ) for side in parts)
    return (display.clean(a, most), display.clean(b, most)) if differ and max(len(a), len(b)) <= most else None


def short_name(side: Side, most: int = 18) -> str:
    """A side's name in a column: where it is too long its folder is cut, as its point tells it from its neighbours."""
    folder, between, point = side.name.rpartition(" · ")
    if not between:
        return display.clean_end(side.name, most)
    if len(side.name) <= most:
        return display.clean(side.name, most)
    room = max(5, most - len(point) - len(between))
    return display.clean(f"{display.clean_end(folder, room)}{between}{point}", most)
