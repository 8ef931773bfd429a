"""The points of one repeat measured together: all are up, each in a process of its own, and one at any moment works.

They take turns in short slices and balanced order (schedule/turn_order.py), so that whatever else happens on the
machine meets all of them alike, and their ratio stands where their rates do not (Bulej et al. 2020, "Duet
benchmarking").
"""

from __future__ import annotations

import json
import math
import secrets
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from twinlens.errors import BadInput, ExecutorFailed, Interrupted, TwinlensError
from twinlens.measurement.drive.training import give_up_s
from twinlens.measurement.worker_process import gone_on, raise_for, started, stop
from twinlens.record.codec import encode
from twinlens.record.column import Pairing
from twinlens.record.store import create_run, end_run, read_run, update_run
from twinlens.schedule.turn_order import rounds
from twinlens.spec.study import RunSpec
from twinlens.stats.paired.ratio import FEWEST_BLOCKS, widest
from twinlens.stats.paired.slice_rate import SliceRates
from twinlens.stats.serving.looks import looks_s
from twinlens.system.interrupts import ignore_interrupts

TellsTurn = Callable[[RunSpec, str, float, int], None]
"""Told which run does what, how far the whole repeat is (0-1), and how many rows that run has."""


class Member:
    """One point's worker, and how far it is. `opened` first, then turns, then `end` and `ended`, or `abandoned`."""

    def __init__(self, folder: Path, spec: RunSpec, pairing: Pairing) -> None:
        self.spec = spec
        self.run = create_run(folder, spec)
        update_run(self.run, pairing=encode(pairing))
        self.worked_s, self.observations, self.rows = 0.0, 0, 0
        self._rates: dict[int, float] = {}
        self._size: int | None = None  # steps or batches of a slice, once the warm-up has told
        self._process = started(self.run, "--turns")

    def opened(self, tell: TellsTurn) -> None:
        """Let it open, and wait until it is ready for its first turn. Raises what its run raises, as all that
        follows does."""
        tell(self.spec, "starting", 0.0, 0)
        self._say(open=True)
        self._receive("ready", lambda phrase: tell(self.spec, phrase, 0.0, 0))

    def turn(self, number: int, size: int | None = None) -> float:
        """Let it work for one slice, which counts unless it is a warm-up; steps, batches or requests per second.

        `size`: how many of them, in place of as many as its own warm-up has shown to fill a slice.
        """
        slice_s = self.spec.protocol.slice_s
        self._size = self._size or size
        self._say(turn=number, seconds=slice_s, observations=self._size)
        had = self._receive("had", lambda phrase: None)
        self.rows = had["rows"]
        if self._size is None:
            self._size = max(1, round(slice_s * had["observations"] / max(had["worked_s"], 1e-9)))
        if number >= 0:
            self._rates[number] = had["observations"] / max(had["worked_s"], 1e-9)
            self.worked_s += had["worked_s"]
            self.observations += had["observations"]
        return float(had["observations"] / max(had["worked_s"], 1e-9))

    @property
    def size(self) -> int | None:
        """Steps, batches or requests of its slices; None before its first one."""
        return self._size

    def end(self) -> None:
        """Tell it that there are no more turns."""
        self._say(over=True)

    def ended(self) -> None:
        """Wait until it has written everything."""
        self._receive(None, lambda phrase: None)

    def abandoned(self, why: str) -> None:
        """Stop it, whatever it does. Its rows stay; a run that has not failed itself is interrupted."""
        if self._process.poll() is None:
            stop(self._process)
        if read_run(self.run).state != "failed":
            end_run(self.run, "interrupted", why)

    @property
    def is_gone(self) -> bool:
        return self._process.poll() is not None

    @property
    def has_enough(self) -> bool:
        protocol = self.spec.protocol
        enough = self.worked_s >= protocol.duration_s and self.observations >= protocol.min_rows
        return enough and len(self._rates) >= FEWEST_BLOCKS

    @property
    def rates(self) -> SliceRates:
        """Steps, batches or requests per second of its slices so far; whether they were disturbed is not known yet."""
        rates = np.array([*self._rates.values()])
        return SliceRates(np.array([*self._rates], dtype=np.int64), rates, np.zeros(rates.size, bool))

    @property
    def gives_up(self) -> bool:
        return self.worked_s >= give_up_s(looks_s(self.spec.protocol)[-1])

    @property
    def share(self) -> float:
        return min(1.0, self.worked_s / looks_s(self.spec.protocol)[-1])

    def _say(self, **order: Any) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(order) + "\n")
            self._process.stdin.flush()
        except OSError:
            pass  # it is gone: what it said last, or how it ended, is heard next

    def _receive(self, answer: str | None, say: Callable[[str], None]) -> dict[str, Any]:
        """Its next line that has `answer`; None: its last, at its end."""
        assert self._process.stdout is not None
        last: dict[str, Any] = {}
        for line in self._process.stdout:
            last = json.loads(line)
            if answer in last:
                return last
            if "say" in last:
                say(last["say"])
        raise_for(self._process.wait(), last, self.run)
        if answer is not None:
            raise ExecutorFailed(f"the worker ended before its turns did; its log is in {self.run}", code="TL302")
        return last


def measure_paired(folder: Path, specs: Sequence[RunSpec], tell: TellsTurn) -> None:
    """Measure the points of one repeat, taking turns, into new run folders under `folder`.

    Where one of them ends early all do: the rows of all are kept, none counts as finished, and the repeat is measured
    again when the study is resumed. Raises BadInput, ExecutorFailed naming the point, and Interrupted.
    """
    pairing = Pairing(secrets.token_hex(4), len(specs), specs[0].protocol.slice_s)
    members: list[Member] = []
    try:
        for place, spec in enumerate(specs):  # all import what they need at the same time, and open one after another
            members.append(Member(folder, spec, replace(pairing, place=place)))
        for member in members:
            member.opened(tell)
        _take_turns(members, tell)
        for member in members:  # nothing is measured any more: all write at the same time
            member.end()
        for member in members:
            member.ended()
    except (KeyboardInterrupt, Interrupted):
        with ignore_interrupts():
            _abandon(members, "interrupted by the user")
        raise Interrupted(gone_on(folder)) from None
    except TwinlensError as error:
        failed = _failed(members)
        who = f"{failed.spec.point.precision}, repeat {failed.spec.repeat}"
        _abandon(members, f"it took turns with another run, which failed ({who}); the repeat is measured again")
        kind = BadInput if isinstance(error, BadInput) else ExecutorFailed
        raise kind(f"{who}: {error}", code=error.code) from error


def _take_turns(members: Sequence[Member], tell: TellsTurn) -> None:
    """A round to warm up, then rounds until every point has enough and, with `most_s`, every ratio is known."""
    first = members[0].spec
    orders = rounds(len(members), f"{first.protocol.seed}/{first.repeat}/turns")
    number, looks, known = -len(members), [*looks_s(first.protocol)], ""
    while number <= 0 or looks:
        for place in next(orders):
            members[place].turn(number)
            number += 1
            phrase = "warming up" if number <= 0 else f"measuring in turns{known}"
            tell(members[place].spec, phrase, min(member.share for member in members), members[place].rows)
        if any(member.gives_up for member in members):
            break
        if all(member.has_enough for member in members) and min(member.worked_s for member in members) >= looks[0]:
            looks, known = _left(members, looks)


def _left(members: Sequence[Member], looks: list[float]) -> tuple[list[float], str]:
    """The looks that are left after one, none where every ratio is known within `width`; and what it saw, in words."""
    protocol = members[0].spec.protocol
    later = [moment for moment in looks if moment > min(member.worked_s for member in members)]
    if not later or (reach := widest([member.rates for member in members], len(looks_s(protocol)))) <= protocol.width:
        return [], ""
    seen = f"known within {reach:.0%}" if math.isfinite(reach) else "not known"
    return later, f" (a ratio is {seen}, {protocol.width:.0%} asked)"


def _failed(members: Sequence[Member]) -> Member:
    gone = [member for member in members if member.is_gone]
    return next((member for member in members if read_run(member.run).state == "failed"), [*gone, members[-1]][0])


def _abandon(members: Sequence[Member], why: str) -> None:
    for member in members:
        member.abandoned(why)
