"""The last routes and what became of them: each explained, how often predictions held, what choices cost."""

from __future__ import annotations

import statistics
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from twinlens.gateway.outcome import Attempt, Outcome
from twinlens.gateway.routing.route import Band, Candidate, Route
from twinlens.gateway.routing.state import State

if TYPE_CHECKING:  # reporting is loaded where somebody looks
    from twinlens.reporting.document.block import Block

KEPT = 2000
"""Routes that are kept: of 16 candidates each, about 10 MB."""


@dataclass(frozen=True, slots=True)
class Tried:
    """One backend that was asked. `ttft_s`: of a stream, from sending to its first content, None where none came."""

    route: Route
    ttft_s: float | None
    took_s: float
    failure: str
    said: str


@dataclass(frozen=True, slots=True)
class Audited:
    """One request without its text."""

    id: str
    model: str
    ending: str
    error: str
    tried: tuple[Tried, ...]


class Audit:
    """Takes each outcome once; the oldest of more than `KEPT` are forgotten. `states`: those of the router, which
    count what held since the gateway started."""

    def __init__(self, states: Mapping[str, State], kept: int = KEPT) -> None:
        self._states, self._most = states, kept
        self._kept: OrderedDict[str, Audited] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def add(self, outcome: Outcome) -> None:
        if not outcome.attempts:
            return
        tried = tuple(_tried(each, outcome) for each in outcome.attempts)
        self._kept[outcome.id] = Audited(outcome.id, outcome.model, outcome.ending, outcome.error, tried)
        while len(self._kept) > self._most:
            self._kept.popitem(last=False)

    def route(self, id: str) -> dict[str, Any] | None:
        """One request as plain data; None for one that is not kept (any more)."""
        found = self._kept.get(id)
        return None if found is None else _plain(found)

    def to_json(self) -> dict[str, Any]:
        """Over all that is kept: bands that held, by backend since the start, and the regret of choices."""
        regrets = self.regrets_s()
        return {
            "routes": len(self._kept),
            "backends": {name: _standing(state) for name, state in self._states.items()},
            "regret_s": {"n": len(regrets), "mean": statistics.fmean(regrets), "largest": max(regrets)}
            if regrets else {"n": 0, "reason": "no route had two predicted candidates and a first token"},
        }  # fmt: skip

    def regrets_s(self) -> list[float]:
        """Of each first attempt with a first token and a second candidate that was predicted: by how much TTFT was
        longer than the best other one's, as predicted; what its backend's predictions missed by, in the middle of all
        kept routes, is put right afterwards. 0 where the choice was the best.

        What the others would have taken is modelled: nobody asked them.
        """
        off = self._off()
        regrets = []
        for each in self._kept.values():
            first = each.tried[0]
            others = [
                other.ttft_s.middle * off.get(other.backend, 1.0)
                for other in first.route.candidates
                if other.ttft_s is not None and not other.out and other.backend != first.route.backend.name
            ]
            if first.ttft_s is not None and others:
                regrets.append(max(0.0, first.ttft_s - min(others)))
        return regrets

    def _off(self) -> dict[str, float]:
        """By backend, the median of true over predicted TTFT."""
        ratios: dict[str, list[float]] = {}
        for each in self._kept.values():
            for tried in each.tried:
                band = tried.route.chosen.ttft_s
                if tried.ttft_s is not None and band is not None:
                    ratios.setdefault(tried.route.backend.name, []).append(tried.ttft_s / band.middle)
        return {name: statistics.median(each) for name, each in ratios.items()}

    def as_document(self) -> list[Block]:
        """Backends with what held of their predictions, and the last routes."""
        from twinlens.reporting.document.block import Cell, Line, Table, Title

        regrets = self.regrets_s()
        told = (
            f"On average a first token came {statistics.fmean(regrets) * 1e3:.3g} ms later than at the best other "
            f"backend, as predicted (n = {len(regrets)}; what others would have taken is modelled)."
            if regrets
            else "What the choices cost is not known: no route had two predicted candidates and a first token."
        )
        backends = tuple(
            (Cell(name), Cell(state.backend.identity, why=state.backend.why),
             Cell(str(state.load.in_flight)), _held_cell(state.ttft.held, state.ttft.tried),
             _held_cell(state.tpot.held, state.tpot.tried),
             Cell(state.health.why and f"rested after {state.health.why}"))
            for name, state in self._states.items()
        )  # fmt: skip
        last = tuple(self._row(each) for each in reversed([*self._kept.values()][-20:]))
        return [
            Title("Routes"), Line(told),
            Table("Backends", ("backend", "stands to the measured one", "in flight", "TTFT in its band",
                               "TPOT in its band", "health"), backends),
            Table("The last routes", ("request", "backend", "why", "predicted TTFT", "TTFT", "ended"), last),
        ]  # fmt: skip

    def route_as_document(self, id: str) -> list[Block] | None:
        """Why one request went where it went, and what became of it."""
        from twinlens.reporting.document.block import Cell, Line, Table, Title

        found = self._kept.get(id)
        if found is None:
            return None
        blocks: list[Block] = [
            Title(f"Request {found.id}"),
            Line(f"{found.model}: {found.ending}. {found.error}".strip()),
        ]
        for tried in found.tried:
            came = "no first token" if tried.ttft_s is None else f"its first token after {tried.ttft_s * 1e3:.3g} ms"
            ended = f"; {tried.failure}: {tried.said}" if tried.failure else ""
            blocks.append(Line(f"{tried.route.backend.name}: {tried.route.reason}; {came}{ended}."))
            rows = tuple(
                (Cell(each.backend), Cell(str(each.in_flight)), _band_cell(each.ttft_s), _band_cell(each.tpot_s),
                 Cell(each.out or ("chosen" if each.backend == tried.route.backend.name else "")))
                for each in tried.route.candidates
            )  # fmt: skip
            blocks.append(Table("Candidates", ("backend", "in flight", "TTFT", "TPOT", ""), rows))
        return blocks

    @staticmethod
    def _row(each: Audited) -> Any:
        from twinlens.reporting.document.block import Cell

        last = each.tried[-1]
        ttft = "–" if last.ttft_s is None else f"{last.ttft_s * 1e3:.3g} ms"
        return (Cell(each.id), Cell(last.route.backend.name), Cell(last.route.reason),
                _band_cell(last.route.chosen.ttft_s), Cell(ttft), Cell(each.ending))  # fmt: skip


def _tried(attempt: Attempt, outcome: Outcome) -> Tried:
    streams = outcome.asked is not None and outcome.asked.streams
    ttft_s = (attempt.first_ns - attempt.begin_ns) / 1e9 if streams and attempt.first_ns is not None else None
    took_s = max(0, attempt.end_ns - attempt.begin_ns) / 1e9
    return Tried(attempt.route, ttft_s, took_s, attempt.failure, attempt.said)


def _plain(each: Audited) -> dict[str, Any]:
    return {"id": each.id, "model": each.model, "ending": each.ending, "error": each.error,
            "attempts": [*_attempts(each)]}  # fmt: skip


def _attempts(each: Audited) -> Iterator[dict[str, Any]]:
    for tried in each.tried:
        band = tried.route.chosen.ttft_s
        has_both = band is not None and tried.ttft_s is not None
        yield {
            "backend": tried.route.backend.name, "reason": tried.route.reason, "ttft_s": tried.ttft_s,
            "held": band.low <= tried.ttft_s <= band.high if has_both else None,  # type: ignore[union-attr, operator]
            "took_s": tried.took_s, "failure": tried.failure, "said": tried.said,
            "first_token_within_s": tried.route.first_token_s,
            "candidates": [_candidate(one) for one in tried.route.candidates],
        }  # fmt: skip


def _candidate(one: Candidate) -> dict[str, Any]:
    bands = {"ttft_s": one.ttft_s, "tpot_s": one.tpot_s}
    return one._asdict() | {name: band._asdict() if band else None for name, band in bands.items()}


def _standing(state: State) -> dict[str, Any]:
    return {
        "identity": state.backend.identity, "why": state.backend.why, "in_flight": state.load.in_flight,
        "ttft": {"held": state.ttft.held, "of": state.ttft.tried},
        "tpot": {"held": state.tpot.held, "of": state.tpot.tried},
        "prompt_tokens": f"counted by the server in {state.load.counted} answers" if state.load.counted
        else "assumed: 4 bytes a token",
    }  # fmt: skip


def _held_cell(held: int, tried: int) -> Any:
    from twinlens.reporting.document.block import Cell

    return Cell(f"{held} of {tried}") if tried else Cell("–", why="nothing was predicted of it yet")


def _band_cell(band: Band | None) -> Any:
    from twinlens.reporting.document.block import Cell

    if band is None:
        return Cell("–", why="nothing is predicted of it")
    return Cell(f"{band.middle * 1e3:.3g} ms", bounds=f"{band.low * 1e3:.3g} to {band.high * 1e3:.3g} ms")
