"""Charts of where memory and time go: parts of a whole, one bar an operating point."""

from __future__ import annotations

from typing import Any

import altair as alt

from twinlens.reporting import display
from twinlens.reporting.chart.figure import INK, SOFT, STEADY, WIDTH, Figure, colours, data, figure
from twinlens.reporting.load_kind import is_driven
from twinlens.reporting.palette import PART_COLOURS, REST_COLOUR
from twinlens.reporting.view import Entry, LensView
from twinlens.stats.metrics.definition import METRICS
from twinlens.units import scale, show

_MEMORY = {
    "training": ("weights_bytes", "adapter_bytes", "gradients_bytes", "optimizer_bytes", "activations_bytes"),
    "inference": ("weights_bytes", "kv_bytes"),
}
_REST = "rest of the peak"
_PHASES = (
    "data_share", "forward_share", "backward_share", "communicate_share", "optimize_share", "checkpoint_share",
)  # fmt: skip
# Mixed-precision AdamW keeps 12 bytes a parameter beside 2-byte weights and gradients, 16 in all (Rajbhandari
# et al. 2020, ZeRO, 3.1); leaner state comes to 12, an fp32 copy of the gradients to 20.
RULE_BYTES = (12.0, 20.0)


def memory_chart(lens: LensView, entries: tuple[Entry, ...], anchor: str) -> Figure | None:
    """Resident bytes by category, stacked, and what remains of the measured peak."""
    parts = {entry.name: _memory_parts(lens, entry) for entry in entries}
    totals = {name: sum(sizes.values()) for name, sizes in parts.items()}
    if not any(totals.values()):
        return None
    divisor, unit = scale("bytes", max(totals.values()))
    labels = [METRICS[key].label for key in _MEMORY[lens.lens]] + [_REST]
    labels = [label for label in labels if any(sizes.get(label) for sizes in parts.values())]
    chart = stack(parts, labels, divisor, f"memory ({unit})")
    largest = max(totals, key=lambda name: totals[name])
    part = max(parts[largest], key=lambda label: parts[largest][label])
    title = f"{largest} needs {show(totals[largest], 'bytes')}, most of it for the {part}."
    if part == _REST:
        title = (
            f"{largest} peaks at {show(totals[largest], 'bytes')}, most of it outside the categories that are counted."
        )
    caption = (
        "Bytes by category, mean of runs. Grey: the sampled peak of the process or device less these, "
        "so the framework itself, temporary buffers and fragmentation. Not drawn where no peak was sampled."
    )
    if any(map(_has_ranks, entries)):
        caption += " Of several ranks it is not drawn either: parts are those of the fullest, the peak is that of all."
    return figure(anchor, chart, title, caption)


def rule_chart(entries: tuple[Entry, ...], anchor: str) -> Figure | None:
    """State bytes per parameter beside the rule of 12–20 bytes for mixed-precision AdamW."""
    rows = [
        {"name": entry.name, "value": estimate.value}
        for entry in entries
        if (estimate := entry.group.metrics.get("bytes_per_parameter")) is not None and estimate.value is not None
        if not _has_ranks(entry)  # of which one may hold a part of the model
    ]
    if not rows:
        return None
    most = max(24.0, 1.15 * max(float(row["value"]) for row in rows))  # type: ignore[arg-type]
    band = alt.Chart(data([{"low": RULE_BYTES[0], "high": RULE_BYTES[1]}])).mark_rect(color=STEADY)
    x = alt.X("value:Q", title="bytes per parameter", scale=alt.Scale(domain=[0, most], nice=False))
    names = {entry.name: entry.precision for entry in entries}
    y = alt.Y("name:N", title=None, sort=[str(row["name"]) for row in rows])
    dots = alt.Chart(data(rows)).mark_circle(size=130, opacity=1).encode(
        x=x, y=y, color=alt.Color("name:N", scale=colours(names), legend=None)
    )  # fmt: skip
    words = alt.Chart(data([row | {"text": f"{row['value']:.3g}"} for row in rows])).mark_text(
        align="left", dx=10, color=INK, fontSize=14
    )
    chart = (
        band.encode(x=alt.X("low:Q"), x2=alt.X2("high:Q")) + dots + words.encode(x=x, y=y, text=alt.Text("text:N"))
    ).properties(width=WIDTH, height=alt.Step(40))
    low, high = RULE_BYTES
    outside = [str(row["name"]) for row in rows if not low <= float(row["value"]) <= high]  # type: ignore[arg-type]
    title = (
        f"{' and '.join(outside)} lies outside the rule of {low:.0f}–{high:.0f} bytes per parameter."
        if outside
        else f"All points keep the rule of {low:.0f}–{high:.0f} bytes per parameter."
    )
    caption = (
        "Shaded: what mixed-precision AdamW commonly takes for weights, gradients and optimizer state. "
        f"Method: {display.clean(_method(entries, 'bytes_per_parameter'))}."
    )
    return figure(anchor, chart, title, caption)


def phase_chart(entries: tuple[Entry, ...], anchor: str) -> Figure | None:
    """Shares of a training step by phase, with what no phase accounts for."""
    parts: dict[str, dict[str, float]] = {}
    for entry in entries:
        shares = {
            METRICS[key].label: estimate.value
            for key in (*_PHASES, "unattributed_share")
            if (estimate := entry.group.metrics.get(key)) is not None and estimate.value is not None
        }
        if len(shares) > 1:  # with no phase at all, a bar of the rest says nothing
            parts[entry.name] = shares
    if not parts:
        return None
    labels = [METRICS[key].label for key in _PHASES] + [METRICS["unattributed_share"].label]
    labels = [label for label in labels if any(label in shares for shares in parts.values())]
    chart = stack(parts, labels, 1.0, "share of a training step", "%")
    name, shares = next(iter(parts.items()))
    largest = max(shares, key=lambda label: shares[label])
    driven = all(is_driven(run) for entry in entries for run, _ in entry.material)
    synchronised = ", the device synchronised at each" if driven else ""
    title = f"The {largest} phase takes {shares[largest]:.0%} of a step of {name}."
    caption = (
        f"Time between phase marks{synchronised}, steady steps only. Method: "
        f"{display.clean(_method(entries, 'forward_share'))}. Unattributed: the step less all its phases."
    )
    return figure(anchor, chart, title, caption)


def stack(
    parts: dict[str, dict[str, float]],
    labels: list[str],
    divisor: float,
    title: str,
    format: str | None = None,
) -> Any:
    """Bars of parts of a whole, one a name; `parts`: name to part to value."""
    rows = [
        {"name": name, "part": label, "value": sizes[label] / divisor, "order": labels.index(label)}
        for name, sizes in parts.items()
        for label in labels
        if sizes.get(label)
    ]
    rest = [REST_COLOUR if label in (_REST, "unattributed", "other") else None for label in labels]
    plain = iter((*PART_COLOURS, SOFT))
    hues = [grey or next(plain) for grey in rest]
    axis = alt.Axis(format=format) if format else alt.Axis()
    whole = alt.Scale(domain=[0, 1], nice=False) if format else alt.Scale()
    return (
        alt.Chart(data(rows))
        .mark_bar(height=22, stroke="white", strokeWidth=1)
        .encode(
            y=alt.Y("name:N", sort=list(parts), title=None, axis=alt.Axis(domain=False, ticks=False)),
            x=alt.X("value:Q", title=title, axis=axis, scale=whole, stack="zero"),
            color=alt.Color("part:N", scale=alt.Scale(domain=labels, range=hues), title=None, sort=labels),
            order=alt.Order("order:O"),
        )
        .properties(width=WIDTH, height=alt.Step(36))
    )


def _memory_parts(lens: LensView, entry: Entry) -> dict[str, float]:
    metrics = entry.group.metrics
    sizes = {
        METRICS[key].label: float(estimate.value)
        for key in _MEMORY[lens.lens]
        if (estimate := metrics.get(key)) is not None and estimate.value is not None
    }
    peak = None if _has_ranks(entry) else metrics.get("peak_bytes")
    if peak is not None and peak.value is not None and peak.value > sum(sizes.values()):
        sizes[_REST] = peak.value - sum(sizes.values())
    return sizes


def _has_ranks(entry: Entry) -> bool:
    """Whether several processes trained: what is counted by category is then that of the fullest one."""
    worlds = [run.facts.executor.value("training.world_size") for run, _ in entry.material if run.facts]
    return any(isinstance(ranks, int) and ranks > 1 for ranks in worlds)


def _method(entries: tuple[Entry, ...], key: str) -> str:
    for entry in entries:
        if key in entry.group.metrics:
            return entry.group.metrics[key].method
    return "not stated"
