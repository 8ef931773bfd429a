"""Rows of a simulated run as its requests end: for run folders of more requests than memory holds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pyarrow as pa

from twinlens.errors import BadInput
from twinlens.schedule.build import planned_load
from twinlens.schedule.plan import NONE, Plan
from twinlens.simulation.law import StepLaw
from twinlens.simulation.noise import Noise
from twinlens.simulation.parts import serve_in_parts
from twinlens.simulation.points.play import refuse_unplayable, rows_of_served, work_of
from twinlens.simulation.rules import Rules
from twinlens.simulation.work import Ints
from twinlens.spec.study import RunSpec

PART = 2_000
"""Requests between two tables."""


def rows_in_parts(
    spec: RunSpec,
    law: StepLaw,
    rules: Rules,
    *,
    noise: Noise | None = None,
    horizon_s: float | None = None,
    part: int = PART,
) -> Iterator[pa.Table]:
    """The rows that `play` gives of one engine, in the order in which requests end: `write_run` takes them as they are.

    What grows with the load is its schedule, some 30 bytes a request. Raises BadInput (TL250) as `play` does, and for a
    load whose requests wait for answers.
    """
    refuse_unplayable(spec)
    plan = planned_load(spec).plan
    if plan is None or spec.point.admission is not None or (plan.intended_ns == NONE).any():
        raise BadInput("rows are streamed of a load with a schedule, and in this one requests wait for answers: play "
                       "it whole, or give rates", code="TL250")  # fmt: skip
    taken = (_taken(plan, np.arange(begin, min(begin + part, len(plan)))) for begin in range(0, len(plan), part))
    works = (work_of(each, law) for each in taken)
    for each in serve_in_parts(works, law, rules, noise=noise, horizon_s=horizon_s):
        numbers = each.place + plan.first_number
        yield rows_of_served(_taken(plan, each.place), numbers, each.served, law, horizon_s)


def _taken(plan: Plan, places: Ints) -> Plan:
    """Some requests of a plan; blocks of prompts, which no row has, are left out."""
    columns = {each.name: getattr(plan, each.name) for each in fields(plan)}
    found: dict[str, Any] = {name: column[places] for name, column in columns.items()
             if isinstance(column, np.ndarray) and not name.startswith("block_")}  # fmt: skip
    return replace(plan, **found, block_offsets=None, block_ids=None)
