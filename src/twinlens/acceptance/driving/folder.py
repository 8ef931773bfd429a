"""The folder of a burn-in while it is driven: found or made, held by one command alone, tidied after a kill."""

from __future__ import annotations

import contextlib
import json
import secrets
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from twinlens.acceptance.window import BURNIN_FILE, BurnIn, read_burnin, write_head
from twinlens.errors import BadInput
from twinlens.measurement.study_folder import await_end, locked
from twinlens.record.codec import encode
from twinlens.record.store import end_run, now_utc, read_record
from twinlens.spec.study import RunSpec
from twinlens.system.interrupts import interrupt_once

VERDICT_FILE = "verdict.json"
UNUSABLE = "TL260"


@dataclass(frozen=True, slots=True)
class Held:
    """A folder that this command alone drives. `resumed`: it was there."""

    folder: Path
    head: BurnIn
    resumed: bool


@contextlib.contextmanager
def held(
    wanted: BurnIn, out: Path, completed: Callable[[BurnIn], BurnIn], *, fresh: bool, keeps_criteria: bool
) -> Iterator[Held]:
    """The unfinished burn-in under `out` that asks for the same, or a new one; `out` may be the folder of one itself.

    `completed`: adds to the head of a new one what takes a minute. `keeps_criteria`: no criteria were named, and those
    that it was begun with count. No other command can hold it meanwhile; the death of this process lets go of it.
    Raises BadInput: TL221 where another holds it, TL260 for a folder that holds the burn-in of other specs, or was
    begun with other criteria.
    """
    with contextlib.ExitStack() as stack, interrupt_once():
        named = out if (out / BURNIN_FILE).exists() else None
        parent = out.parent if named else out
        parent.mkdir(parents=True, exist_ok=True)
        with locked(parent, wait=True):  # two commands that begin at once must not make a folder each
            found = named if named else None if fresh else unfinished(wanted, out)
            folder = found or _made(completed(wanted), out)
            if not stack.enter_context(locked(folder)):
                raise BadInput(
                    f"another twinlens is driving the burn-in in {folder}; wait for it, or begin another with --fresh",
                    code="TL221",
                )
        head, _ = read_burnin(folder)
        _refuse_other(head, wanted, folder, keeps_criteria=keeps_criteria)
        if found:
            _tidy(folder)
        yield Held(folder, head, found is not None)


def unfinished(wanted: BurnIn, out: Path) -> Path | None:
    """The newest burn-in under `out` that asks for the same and was not driven and shown to its end."""
    for path in sorted(out.glob(f"*/{BURNIN_FILE}"), reverse=True):
        try:
            head, _ = read_burnin(path.parent)
        except BadInput:
            continue  # a broken neighbour is no reason to stop
        if _same(head) == _same(wanted):
            return None if is_over(path.parent) else path.parent
    return None


def specs_of(names: tuple[str, ...], times: tuple[float, ...], out: Path) -> tuple[RunSpec, ...]:
    """The specs of the newest unfinished burn-in under `out`, or in it, with workloads of these names and these times
    (tested, of a window, of a rest); none where there is none. What fits in memory now may be less than it was."""
    for path in sorted((*out.glob(f"*/{BURNIN_FILE}"), *out.glob(BURNIN_FILE)), reverse=True):
        try:
            head, _ = read_burnin(path.parent)
            asked = head.asked
            if (asked.workloads, asked.for_s, asked.window_s, asked.rest_s) == (names, *times):
                specs = tuple(RunSpec.model_validate_json(json.dumps(encode(each))) for each in head.specs)
                return () if is_over(path.parent) else specs
        except (BadInput, ValueError):
            continue  # a broken neighbour is no reason to stop
    return ()


def is_over(folder: Path) -> bool:
    """Whether it was judged after its planned time, and shown."""
    try:
        return bool(read_record(folder / VERDICT_FILE).get("is_whole"))
    except BadInput:
        return False


def _made(wanted: BurnIn, out: Path) -> Path:
    folder = out / f"{now_utc()}_burnin_{secrets.token_hex(2)}"
    folder.mkdir(parents=True)
    write_head(folder, wanted)
    return folder


def _same(head: BurnIn) -> tuple[Any, ...]:
    """What two burn-ins must share to be one: the work and its times."""
    asked = head.asked
    return tuple(map(_hashable, head.specs)), asked.for_s, asked.window_s, asked.rest_s


def _hashable(spec: Mapping[str, Any]) -> str:
    return repr(sorted(spec.items()))


def _refuse_other(head: BurnIn, wanted: BurnIn, folder: Path, *, keeps_criteria: bool) -> None:
    if _same(head) != _same(wanted):
        asked, names = head.asked, ", ".join(head.asked.workloads)
        raise BadInput(
            f"{folder} holds another burn-in ({names}, {asked.for_s:g} s in windows of {asked.window_s:g} s); ask for "
            "the same again, or name another folder with --out",
            code=UNUSABLE,
        )
    if not keeps_criteria and head.criteria != wanted.criteria:
        raise BadInput(
            f"the burn-in in {folder} was begun with other criteria, and those count: leave --criteria out to go on, "
            "or begin another with --fresh",
            code=UNUSABLE,
        )


def _tidy(folder: Path) -> None:
    """After a kill: let the worker that is left end, and write down that its run was cut off."""
    for path in sorted(folder.glob("turn-*/*/run.json")):
        await_end(path.parent)
        with contextlib.suppress(BadInput):
            if read_record(path).get("state") == "running":
                end_run(path.parent, "interrupted", "its process was killed")
