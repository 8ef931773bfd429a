"""Rows of a simulated training run: those that a measured one has, so that the same statistics read them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from twinlens.errors import BadInput
from twinlens.record.sections import Save
from twinlens.record.step import STEP_SCHEMA
from twinlens.simulation.training.history import History
from twinlens.simulation.work import Floats, Ints

NOT_MODELLED = (
    "ranks that are slow together",
    "computing that an exchange beside it slows down",
    "saves that are lost before they are durable",
    "failures during the start",
    "the loss",
)
"""What real training has and these runs lack, most telling first."""
MOST_ROWS = 5_000_000
_PHASES = ("forward", "backward", "communicate", "optimize")
_RECOVERS = -1


@dataclass(frozen=True, slots=True)
class Step:
    """What a step does: `samples` and `tokens` of it, and the shares of its time without waiting for data and saves by
    phase ("forward", "backward", "communicate", "optimize"); a phase that is not named is not known."""

    samples: int
    tokens: int
    shares: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """`table`: rows by STEP_SCHEMA. `startup_s`: before the first row. `saves`: in the order of time."""

    table: pa.Table
    startup_s: float
    saves: tuple[Save, ...]


def rows(gone: History, step: Step) -> Rows:
    """The rows of a run, those of attempts that failed among them. Raises BadInput for more than can be kept."""
    if (lost := float(sum(step.shares.values()))) > 1 + 1e-9 or set(step.shares) - set(_PHASES):
        raise BadInput(f"shares of a step are of {', '.join(_PHASES)} and are 1 at most together, not {lost:.4g}")
    place, gap_s, is_again = _in_order(gone)
    recovers, plan = place == _RECOVERS, gone.plan
    is_step = gone.is_step[place] & ~recovers
    ends_stretch = np.zeros(len(gone.row_s), bool)
    ends_stretch[gone.first[1:] - 1] = bool(plan.save_every)
    saves = ends_stretch[place] & ~recovers
    lasts_s = gone.row_s[place] + np.where(saves, plan.save_s, 0.0)
    lasts_s[recovers] = gone.down_s
    end_ns = np.rint(np.cumsum(gap_s + lasts_s) * 1e9).astype(np.int64)
    begin_ns = np.concatenate([[0], end_ns[:-1]]) + np.rint(gap_s * 1e9).astype(np.int64)
    number = (np.cumsum(gone.is_step) - 1)[place]  # of the step, from 0
    data_s = plan.data_s[number]
    save_ns = np.where(saves, _ns(plan.save_s), 0)
    kind = np.where(recovers, "recover", np.where(is_step, "step", "evaluate"))
    columns = {
        "begin_ns": begin_ns, "end_ns": end_ns, "kind": pa.array(kind),
        "samples": np.where(is_step, step.samples, 0), "tokens": np.where(is_step, step.tokens, 0),
        "tag": pa.array(np.where(is_again & is_step, "repeat", ""), mask=~(is_again & is_step)),
        "data_ns": pa.array(_ns(data_s), mask=~is_step) if plan.data_s.any() else None,
        "checkpoint_ns": pa.array(save_ns, mask=~saves) if plan.save_every else None,
    }  # fmt: skip
    for name, share in step.shares.items():
        columns[f"{name}_ns"] = pa.array(_ns(share * (gone.row_s[place] - data_s)), mask=~is_step)
    return Rows(_table(columns, len(place)), plan.startup_s, _saves(end_ns, save_ns, saves, number))


def _in_order(gone: History) -> tuple[Ints, Floats, npt.NDArray[np.bool_]]:
    """Rows in the order of time, by their place among those of a run without failures: `_RECOVERS` where training
    recovers; the seconds before each in which a step was begun and lost; and which had been done before."""
    starts = np.concatenate([[0], gone.first[gone.stretch]])
    stops = np.append(gone.first[gone.stretch] + gone.done, len(gone.row_s))
    if (many := int((stops - starts).sum()) + len(gone.stretch)) > MOST_ROWS:
        raise BadInput(f"the run has {many:,} rows, and {MOST_ROWS:,} are kept at most; simulate fewer steps")
    clock_s = np.concatenate([[0.0], np.cumsum(gone.row_s)])
    broken_s = np.append(gone.lost_s - (clock_s[stops[:-1]] - clock_s[starts[1:]]), 0.0)
    reached = np.concatenate([[0], np.maximum.accumulate(stops)[:-1]])
    place, gap_s, again = list[Ints](), list[Floats](), list[npt.NDArray[np.bool_]]()
    for start, stop, left_s, before in zip(starts, stops, broken_s, reached, strict=True):
        own = np.arange(start, stop)
        place += [own, np.array([_RECOVERS])]
        gap_s += [np.zeros(len(own)), np.array([left_s])]
        again += [own < before, np.array([False])]
    return np.concatenate(place[:-1]), np.maximum(0.0, np.concatenate(gap_s[:-1])), np.concatenate(again[:-1])


def _table(columns: Mapping[str, object], count: int) -> pa.Table:
    arrays = [
        pa.nulls(count, each.type) if columns.get(each.name) is None else pa.array(columns[each.name], each.type)
        for each in STEP_SCHEMA
    ]
    return pa.Table.from_arrays(arrays, schema=STEP_SCHEMA)


def _saves(end_ns: Ints, save_ns: Ints, saves: np.ndarray, number: Ints) -> tuple[Save, ...]:
    """Each is durable when it has ended: it blocks."""
    return tuple(
        Save(int(step) + 1, int(end - took), int(took), int(end))
        for step, end, took in zip(number[saves], end_ns[saves], save_ns[saves], strict=True)
    )


def _ns(seconds: np.ndarray | float) -> Ints:
    return np.asarray(np.floor(np.asarray(seconds) * 1e9), dtype=np.int64)
