"""The verb that burns a machine in: workloads in turns, windows appended, a verdict by criteria written before."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from twinlens.acceptance.criteria import read_criteria
from twinlens.acceptance.driving.all_reduce import fit_of
from twinlens.acceptance.driving.counters import Reading, Xids, read_all
from twinlens.acceptance.driving.drive import Means, drive
from twinlens.acceptance.driving.folder import VERDICT_FILE, held, specs_of
from twinlens.acceptance.driving.products import in_own_process
from twinlens.acceptance.driving.repeated_work import excluded
from twinlens.acceptance.driving.workloads import candidates, turn_of
from twinlens.acceptance.judge import judged
from twinlens.acceptance.judgement import BurnInResult
from twinlens.acceptance.window import Asked, BurnIn, Window, read_burnin, read_windows
from twinlens.api.documented import Documented
from twinlens.api.measuring.burnin_asked import Burnin
from twinlens.api.measuring.progress import Progress, watching
from twinlens.api.plan.reading.amount import lasting_of
from twinlens.api.question import UNREADABLE, asks
from twinlens.api.questions import BURNIN
from twinlens.errors import BadInput
from twinlens.measurement.event import Watch
from twinlens.measurement.machine.host import capture_host
from twinlens.record.codec import encode
from twinlens.record.store import now_utc, read_record, write_json
from twinlens.reporting.wording.finding import with_words
from twinlens.spec.load import load
from twinlens.spec.study import RunSpec, Study
from twinlens.system.home_folder import as_tilde
from twinlens.system.nvml import open_gpus
from twinlens.version import __version__

if TYPE_CHECKING:
    from twinlens.api.words import BurninWords
    from twinlens.reporting.document.block import Document

TURN_S, WINDOW_S, REST_S = 600.0, 60.0, 60.0
_TURNS_OF_EACH = 2
_NOT_OVER = "it was not driven to its end"


@dataclass(frozen=True, slots=True, repr=False)
class BurninResult(BurnInResult, Documented):
    """What `burnin` found: the head with its criteria, every window, and the judgement."""

    __repr__ = Documented.__repr__

    def document(self) -> Document:
        from twinlens.reporting.judging.burnin import burnin_document

        return burnin_document(self)

    def to_json(self) -> dict[str, Any]:
        """As plain data, every finding in words; windows are in the folder, a line each."""
        return dict(with_words({"schema": 1, "twinlens": __version__, **encode(self)}))


@dataclass(frozen=True, slots=True)
class _Times:
    for_s: float
    turn_s: float
    window_s: float
    rest_s: float


@asks(BURNIN)
def burnin(
    *specs: Study | str | Path,
    watch: Watch | Progress | None = Progress(),
    means: Means | None = None,
    **words: Unpack[BurninWords],
) -> BurninResult:
    """Run workloads of both lenses in turns for `for_`, and judge the machine by criteria that were written before.

    `specs`: one point each; without any, candidates of both lenses for this machine. An unfinished burn-in of the same
    under `out` goes on where it was, however it ended; `out` may be its folder. Interrupted, it is judged with what is
    there, and `stopped` says so. `means`: products, counters and clock in place of this machine's. Raises BadInput
    before any work, and OSError where the disk is full, with all before readable.
    """
    asked = Burnin.read(BURNIN.name, {**words})
    times = _times(asked, len(specs))
    criteria = read_criteria("default" if asked.criteria is None else asked.criteria)
    before = None if asked.since is None else read_burnin(asked.since)[1]
    gpus, _ = open_gpus()
    studies = [each if isinstance(each, Study) else load(each) for each in specs] or list(candidates(gpus))
    turns = [turn_of(study, times.turn_s) for study in studies]
    if not specs:
        names = tuple(each.name for each in turns)
        turns = list(specs_of(names, (times.for_s, times.window_s, times.rest_s), asked.out)) or turns
    _refuse_same_names(turns)
    used = means or _means_here()
    head = _head(turns, times, criteria, used.counters())

    def with_fit(head: BurnIn) -> BurnIn:
        return replace(head, asked=replace(head.asked, fit=fit_of(turns)))

    with held(head, asked.out, with_fit, fresh=asked.fresh, keeps_criteria=asked.criteria is None) as folder:
        with _watched(watch, studies[0], head, folder.folder if folder.resumed else None) as told:
            stopped = drive(folder, turns, used, told)
        result = _judged(folder.folder, folder.head, read_windows(folder.folder), stopped, before)
        write_json(folder.folder / VERDICT_FILE, {**result.to_json(), "is_whole": not stopped})
    return result


def shown(folder: Path, before: Path | None = None) -> BurninResult:
    """The burn-in of a folder as it is, judged by its own criteria. Raises BadInput (TL260)."""
    head, windows = read_burnin(folder)
    earlier = None if before is None else read_burnin(before)[1]
    return _judged(folder, head, windows, _why_stopped(folder, head, windows), earlier)


def _judged(
    folder: Path, head: BurnIn, windows: Sequence[Window], stopped: str, before: Sequence[Window] | None
) -> BurninResult:
    judgement = judged(windows, head.criteria, head.asked, before)
    return BurninResult(folder.name, head, tuple(windows), judgement, stopped)


def _why_stopped(folder: Path, head: BurnIn, windows: Sequence[Window]) -> str:
    try:
        return str(read_record(folder / VERDICT_FILE)["stopped"])
    except (BadInput, KeyError):
        return "" if sum(each.seconds for each in windows) >= head.asked.for_s - 1e-6 else _NOT_OVER


def _times(asked: Burnin, specs: int) -> _Times:
    """All of them, those that nobody said from those that were. Raises BadInput (TL231) for what cannot be."""
    for_s, workloads = asked.for_, specs or 3
    turn_s = asked.turn or min(TURN_S, max(1.0, for_s / (_TURNS_OF_EACH * workloads)))
    window_s = asked.window or min(WINDOW_S, turn_s / 5)
    if window_s > turn_s:
        raise BadInput(
            f"--window {window_s:g} s is longer than a turn of {turn_s:g} s; take a shorter window or a longer --turn",
            code=UNREADABLE,
        )
    if turn_s > for_s:
        raise BadInput(f"--turn {turn_s:g} s is longer than --for {for_s:g} s; test for longer, or by shorter turns",
                       code=UNREADABLE)  # fmt: skip
    turn_s = math.floor(turn_s / window_s + 1e-9) * window_s
    return _Times(for_s, turn_s, window_s, _rest_s(asked.rest, turn_s))


def _rest_s(said: str | None, turn_s: float) -> float:
    if said is None:
        return min(REST_S, turn_s / 10)
    return 0.0 if said in ("0", "0s", "0m", "0h") else lasting_of("rest", said)


def _refuse_same_names(turns: Sequence[RunSpec]) -> None:
    names = [each.name for each in turns]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise BadInput(
            f"two specs are named {twice!r}, and windows are told apart by the name of their spec; rename one of them",
            code="TL260",
        )


def _head(turns: Sequence[RunSpec], times: _Times, criteria: Any, readings: Sequence[Reading]) -> BurnIn:
    asked = Asked(
        workloads=tuple(each.name for each in turns),
        for_s=times.for_s,
        window_s=times.window_s,
        rest_s=times.rest_s,
        seed=turns[0].protocol.seed,
        devices=tuple(each.device for each in readings),
        counters={each.device: each.counters for each in readings},
    )
    has_gpu = any(each.device.startswith("gpu:") for each in readings)
    left_out = {each.name: why for each in turns if (why := excluded(each, on_processor=not has_gpu))}
    facts = {name: fact.value for name, fact in capture_host().items() if fact.value is not None}
    return BurnIn(
        asked,
        criteria,
        now_utc(),
        machine=as_tilde(encode(facts)) | {"turn_s": times.turn_s, "not_compared": left_out},
        specs=tuple(each.to_dict() for each in turns),
        version=__version__,
    )


def _means_here() -> Means:
    gpus, _ = open_gpus()
    xids = Xids(gpus)
    return Means(in_own_process, lambda: read_all(gpus, xids))


@contextmanager
def _watched(watch: Watch | Progress | None, study: Study, head: BurnIn, resumed: Path | None) -> Iterator[Watch]:
    """Progress as `measure` shows it: as of one study with a repeat for every turn."""
    turns = max(1, math.ceil(head.asked.for_s / float(head.machine["turn_s"])))
    protocol = study.protocol.model_copy(update={"repeats": turns, "duration_s": float(head.machine["turn_s"])})
    whole = study.model_copy(update={"name": "burn-in", "protocol": protocol})
    with watching(watch, whole, resumed) as told:
        yield told
