"""Document of `twinlens list`: a table, or several under titles where a list is long."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from textwrap import wrap
from typing import Any

from twinlens.reporting.display import clean
from twinlens.reporting.document.block import Block, Document, Line, Table, Title, cells
from twinlens.stats.peers.names import TOOLS
from twinlens.units import COUNT, RATIO

Row = Mapping[str, Any]

_LENSES = {
    "training": "Training",
    "inference": "Inference",
    "collective": "Exchanges between ranks",
    "both": "Both lenses",
}
_WORKLOADS = 20
"""Columns for the kinds of workload that an executor runs; a third one stands below two."""
_UNITS = {RATIO: "ratio", COUNT: "count"}


def listing_document(kind: str, rows: Sequence[Row]) -> Document:
    """Rows of plain data with the same keys, the last one in words that may wrap. No row: one sentence."""
    if not rows:
        return Document.of("List", kind, iter([Line(f"no {kind} here")]))
    parts = (
        {"metrics": _metrics, "runs": _runs, "executors": _executors} | {name: _with_legend(name) for name in _LEGENDS}
    ).get(kind, _in_one_part)(rows)
    return Document.of("List", kind, (each for title, part in parts for each in _blocks(kind, title, part)))


Parts = list[tuple[str, list[Row]]]


_LEGENDS = {
    "devices": "GB nominal, GiB as drivers show it, dense TFLOP/s, link GB/s one way; ?: see list devices NAME",
    "prices": "as quoted; ?: recalled, typed, or without a source; sources: list devices NAME",
}


def _with_legend(kind: str) -> Callable[[Sequence[Row]], Parts]:
    return lambda rows: [(_LEGENDS[kind] if len(rows[0]) > 2 else "", list(rows))]


def _in_one_part(rows: Sequence[Row]) -> Parts:
    return [("", list(rows))]


def _metrics(rows: Sequence[Row]) -> Parts:
    """By lens; other tools' own figures apart, under the tool, by the names that it gives them."""
    parts: dict[str, list[Row]] = {}
    for row in rows:
        tool, _, name = row["metric"].partition(".")
        unit = _UNITS.get(row["unit"], row["unit"])
        if name and tool in TOOLS:
            title = f"As {TOOLS[tool]} counts: twinlens show RUN --as {tool.replace('_', '-')}"
            parts.setdefault(title, []).append({"figure": row["metric"], "unit": unit})
        else:
            mine = {"metric": row["metric"], "unit": unit, "name": row["label"]}
            parts.setdefault(_LENSES[row["lens"]], []).append(mine)
    return list(parts.items())


def _executors(rows: Sequence[Row]) -> Parts:
    """By where they run; then why some do not run here, or were tried on recorded output only."""
    parts: dict[str, list[Row]] = {title: [] for title in (*_PLACES.values(), "Unknown")}
    for row in rows:
        mine = {
            "executor": row["executor"],
            "workloads": tuple(wrap(str(row["lenses"]), _WORKLOADS)),
            "runs here": row["runs here"],
            "precisions": row["precisions"],
        }
        if row["runs here"] not in ("yes", "no"):
            mine["runs here"] = "recorded"
        parts.setdefault(_PLACES.get(row["kind"], "Unknown"), []).append(mine)
    for title, here in (("In a Python of its own", True), ("Why not here", False)):
        said = [row for row in rows if row["why"] and (row["runs here"] == "yes") == here]
        parts[title] = [{"executor": row["executor"], "how" if here else "why": _reason(row)} for row in said]
    return [(title, mine) for title, mine in parts.items() if mine]


_PLACES = {
    "in this process": "In this process",
    "a server of its own": "A server that it starts",
    "a server that is up": "A server that is up",
    "a recorded run": "A recorded run",
}


def _reason(row: Row) -> str:
    return str(row["why"]) if row["runs here"] in ("yes", "no") else f"{row['runs here']}: {row['why']}"


def _runs(rows: Sequence[Row]) -> Parts:
    """By the folder of their study, whose runs share lens and model; each by its own folder there. Then why some did
    not finish, or cannot be read."""
    parts: dict[str, list[Row]] = {}
    ended: list[Row] = []
    for row in rows:
        path, judged = Path(str(row["run"])), row["state"] in _JUDGED
        state = f"{row['state']}: {row['why']}" if judged and row["why"] else row["state"]
        title = f"{path.parent} · {row['lens']} · {row['model']}"
        parts.setdefault(title, []).append({"run": path.name, "state": state})
        ended += [] if judged or not row["why"] else [{"run": path.name, "why": row["why"]}]
    return [*parts.items(), *([("Why they are not finished", ended)] if ended else [])]


_JUDGED = ("valid", "provisional", "not valid")


def _blocks(kind: str, title: str, rows: Sequence[Row]) -> Iterator[Block]:
    heads = tuple(rows[0])
    yield Title(clean(title, 400))
    shown = tuple(cells([_cell(row.get(head, "")) for head in heads]) for row in rows)
    yield Table(f"{kind.capitalize()}.", heads, shown, ("left",) * len(heads), remarks=True)


def _cell(value: Any) -> str:
    """A value on its line; of a tuple each value on its own."""
    lines = value if isinstance(value, tuple) else (value,)
    return "\n".join(clean(line, 400) for line in lines)
