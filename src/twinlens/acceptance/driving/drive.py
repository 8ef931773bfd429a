"""A burn-in driven: workloads in turns with rests between them, until the time that was asked for has been tested.

Each turn is an ordinary run in a folder of its own; its windows are appended when it ends. A command that was killed
goes on where it was: of its last turn the whole windows count, and time in which nothing was tested does not.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from twinlens.acceptance.driving.counters import Reading
from twinlens.acceptance.driving.cut import FAILED_FILE, TURN_FILE, windows_of
from twinlens.acceptance.driving.folder import Held
from twinlens.acceptance.driving.journal import JOURNAL_FILE, PRODUCTS_FILE, CounterLog, add_line, refuse_full_disk
from twinlens.acceptance.driving.products import Digests
from twinlens.acceptance.window import WINDOWS_FILE, Window, append, read_windows
from twinlens.errors import BadInput, ExecutorFailed, Interrupted
from twinlens.measurement.event import Event, Watch
from twinlens.measurement.study import measure_one
from twinlens.record.store import now_utc, write_json
from twinlens.spec.study import RunSpec

MOST_FAILURES = 3
"""Turns of one workload that fail one after another, until it is left out."""
_EPSILON_S = 1e-6
INTERRUPTED = "interrupted by the user"


@dataclass(frozen=True, slots=True)
class Means:
    """What a burn-in is driven with, so that a test can drive one without a machine.

    `products`: digests of fixed products, and why there are none. `counters`: of every device now, every `period_s`.
    `sleep`: rests. `wall_s`: monotonic.
    """

    products: Callable[[], tuple[Digests, str]]
    counters: Callable[[], Sequence[Reading]]
    period_s: float = 5.0
    sleep: Callable[[float], None] = time.sleep
    wall_s: Callable[[], float] = time.monotonic


@dataclass(slots=True)
class _State:
    """Windows so far, the number of the last turn, where the clock of the test stands, and failures one after another
    by workload."""

    windows: list[Window]
    turn: int
    clock_s: float
    failures: dict[str, int] = field(default_factory=dict)

    @property
    def tested_s(self) -> float:
        return sum(each.seconds for each in self.windows)


def drive(held: Held, turns: Sequence[RunSpec], means: Means, watch: Watch) -> str:
    """Drive to the end. Returns why it ended before, "" where it did not.

    Raises OSError for a full disk and the like, with everything before readable, and BadInput for what no run can do.
    """
    state = _resumed(held)
    try:
        return _driven(held, turns, means, watch, state)
    except (KeyboardInterrupt, Interrupted):
        _take_in(held, state)
        return INTERRUPTED


def _driven(held: Held, turns: Sequence[RunSpec], means: Means, watch: Watch, state: _State) -> str:
    for_s, rest_s = held.head.asked.for_s, held.head.asked.rest_s
    is_first = True
    while (left_s := for_s - state.tested_s) > _EPSILON_S:
        refuse_full_disk(held.folder)
        chosen = [each for each in turns if state.failures.get(each.name, 0) < MOST_FAILURES]
        if not chosen:
            return f"every workload failed {MOST_FAILURES} times one after another"
        if not is_first:
            _rest(held.folder, rest_s, means, state)
        spec = _shortened(chosen[state.turn % len(chosen)], left_s, held.head.asked.window_s)
        _turn(held, spec, means, _telling(watch, state, spec, for_s), state, before=is_first)
        is_first = False
    return ""


def _resumed(held: Held) -> _State:
    """What is there: windows, and of a turn that was cut off the whole ones."""
    windows = list(read_windows(held.folder))
    numbers = [int(each.name.rpartition("-")[2]) for each in held.folder.glob("turn-*")]
    state = _State(windows, max(numbers, default=0), _end_s(windows))
    down_s = _since(held.folder / WINDOWS_FILE)
    _take_in(held, state)
    entry = {"what": "resumed" if held.resumed else "begun", "at_utc": now_utc(), "clock_s": state.clock_s}
    add_line(held.folder / JOURNAL_FILE, entry | ({"down_s": down_s} if held.resumed else {}))
    return state


def _since(path: Path) -> float | None:
    """Seconds of the wall clock since a file was written; None where it is not there. Only shown."""
    try:
        return round(max(0.0, datetime.now(UTC).timestamp() - path.stat().st_mtime), 1)
    except OSError:
        return None


def _end_s(windows: Sequence[Window]) -> float:
    return max((each.begin_s + each.seconds for each in windows), default=0.0)


def _take_in(held: Held, state: _State) -> tuple[Window, ...]:
    """Append what the last turn has and the file has not; returns those."""
    there = sum(each.turn == state.turn for each in state.windows)
    first = len(state.windows) - there + 1
    place = _place(held.folder, state.turn)
    try:
        found = windows_of(place, held.head.asked.window_s, first)[there:] if state.turn else ()
    except BadInput as error:  # rows that a crash of the machine has damaged
        add_line(held.folder / JOURNAL_FILE, {"what": "unreadable", "turn": state.turn, "why": str(error)})
        found = ()
    for window in found:
        append(held.folder, window)
        state.windows.append(window)
    state.clock_s = max(state.clock_s, _end_s(state.windows))
    return found


def _place(folder: Path, turn: int) -> Path:
    return folder / f"turn-{turn:05d}"


def _turn(
    held: Held, spec: RunSpec, means: Means, say: Callable[[str, float, int], None], state: _State, *, before: bool
) -> None:
    """One turn: products where none were before it, the run with counters beside it, products again, its windows."""
    place, begun_s, at_s = _place(held.folder, state.turn + 1), means.wall_s(), state.clock_s
    place.mkdir()
    state.turn += 1
    write_json(place / TURN_FILE, {"turn": state.turn, "workload": spec.name, "begin_s": at_s})
    if before:
        say("products", 0.0, 0)
        _products(place, "before", means)
    with CounterLog(place, means.counters, means.period_s) as log:

        def tell(phrase: str, share: float, rows: int) -> None:
            if phrase == "measuring":
                log.begin_rows()
            say(phrase, share, rows)

        try:
            measure_one(place, spec, tell)
        except (ExecutorFailed, BadInput) as error:
            refuse_full_disk(held.folder)  # what a full disk did is no failure of the machine
            ran_before = any(each.workload == spec.name and each.outcome == "ok" for each in state.windows)
            if error.code == "TL301" or (isinstance(error, BadInput) and not ran_before):
                raise
            # A device that is gone in the middle of a test is refused like one that never was.
            add_line(place / FAILED_FILE, {"why": str(error)})
    if log.error is not None:
        raise log.error
    say("products", 1.0, 0)
    _products(place, "after", means)
    found = _take_in(held, state)
    failed = not any(each.outcome == "ok" for each in found)
    state.failures[spec.name] = state.failures.get(spec.name, 0) + 1 if failed else 0
    state.clock_s = max(state.clock_s, at_s + means.wall_s() - begun_s)


def _products(place: Path, when: str, means: Means) -> None:
    digests, why = means.products()
    if why:
        add_line(place / FAILED_FILE, {"why": why})
    add_line(place / PRODUCTS_FILE, {"when": when, "digests": digests})


def _rest(folder: Path, rest_s: float, means: Means, state: _State) -> None:
    """Nothing runs; how devices cool is written down, from the begin of the rest to its end."""
    if rest_s <= 0:
        return
    begun_s, at_s = means.wall_s(), state.clock_s
    parts = math.ceil(rest_s / means.period_s)
    told = [means.counters()]
    for _ in range(parts):
        means.sleep(rest_s / parts)
        told.append(means.counters())
    state.clock_s += max(0.0, means.wall_s() - begun_s)
    names = {each.device for read in told for each in read if each.temperature_c is not None}
    cooled = {name: [each.temperature_c for read in told for each in read if each.device == name] for name in names}
    add_line(folder / JOURNAL_FILE, {"what": "rest", "clock_s": at_s, "seconds": rest_s, "cooled_c": cooled})


def _shortened(spec: RunSpec, left_s: float, window_s: float) -> RunSpec:
    """The last turn is as long as what is left, in whole windows."""
    lasts_s = max(window_s, math.ceil(left_s / window_s - 1e-9) * window_s)
    if lasts_s >= spec.protocol.duration_s:
        return spec
    return spec.model_copy(update={"protocol": spec.protocol.model_copy(update={"duration_s": lasts_s})})


def _telling(watch: Watch, state: _State, spec: RunSpec, for_s: float) -> Callable[[str, float, int], None]:
    """Tells of this turn as the run of that number, of as many as the whole test takes."""
    left = math.ceil((for_s - state.tested_s) / spec.protocol.duration_s - 1e-9)
    number, total = state.turn + 1, state.turn + max(1, left)
    return lambda phrase, share, rows: watch(Event(number, total, spec, f"{spec.name}, {phrase}", share, rows))
