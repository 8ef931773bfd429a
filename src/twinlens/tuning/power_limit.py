"""A sweep of the power limit: the values that "all" tries on the devices which a run uses here.

The limit itself is a field of the spec (`executor.power_limit_w`), which a run holds while it is measured
(`measurement/preflight/power.py`) and which is set back whatever ends the program (`system/limit_keeper.py`).
"""

from __future__ import annotations

from collections.abc import Iterable

from twinlens.measurement.preflight.power import device_limits
from twinlens.spec.study import RunSpec, Study

NAME, PATH = "power_limit_w", "executor.power_limit_w"
_STEPS = 6


def is_limited(space: Iterable[str]) -> bool:
    """Whether a space varies the power limit, which all that is up at a time shares."""
    return bool({NAME, PATH} & set(space))


def limits_here(spec: Study | RunSpec) -> tuple[float, ...]:
    """Six limits in watts, evenly from the least that every device of the run takes to the one that is set now.

    Raises BadInput (TL218, TL266) with the reason where no limit can be set.
    """
    run = spec if isinstance(spec, RunSpec) else spec.point_runs()[0]
    limits = device_limits(run)
    least = max(limit.least_w for limit in limits)
    most = min(limit.now_w for limit in limits)
    steps = (least + (most - least) * step / (_STEPS - 1) for step in range(_STEPS))
    return tuple(dict.fromkeys(float(round(watts)) if watts < most else most for watts in steps if watts >= least))
