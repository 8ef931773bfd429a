"""The router: what is in flight at each backend, and which backend the next request goes to."""

from __future__ import annotations

from collections.abc import Sequence

from twinlens.gateway.asked import Asked
from twinlens.gateway.backend import Backend
from twinlens.gateway.outcome import Failure
from twinlens.gateway.refusal import Refusal
from twinlens.gateway.routing.route import Candidate, Route, Ticket
from twinlens.gateway.settings import GatewaySettings


class Router:
    """State of all backends, of one process. Nothing here waits."""

    def __init__(self, backends: Sequence[Backend], settings: GatewaySettings) -> None:
        self.backends, self.settings = tuple(backends), settings
        self._in_flight = {each.name: 0 for each in backends}
        self._turn = 0

    def renew(self, backends: Sequence[Backend], settings: GatewaySettings) -> None:
        """Other backends or settings from now on; what is in flight stays counted."""
        self.backends, self.settings = tuple(backends), settings
        self._in_flight = {each.name: self._in_flight.get(each.name, 0) for each in backends} | self._in_flight

    def route(self, asked: Asked, tried: frozenset[str], now_ns: int, weights: str = "") -> Route:
        """The backend to ask next, of those not `tried`; with `weights`, of those alone that have these.

        Raises Refusal: 404 for a model that nobody serves, 400 for a prompt beyond every window, 503 where no backend
        is left, 429 (with the seconds until one is free) where all are full.
        """
        left = [each for each in self.backends if each.name not in tried and (not weights or each.weights == weights)]
        if not left:
            raise Refusal(503, "no backend is left that could answer")
        self._turn += 1
        chosen = left[self._turn % len(left)]
        known = tuple(Candidate(each.name, self._in_flight[each.name]) for each in left)
        return Route(chosen, known, "in turn", self.settings.first_token_s)

    def begin(self, route: Route, asked: Asked, now_ns: int) -> Ticket:
        """A request goes out."""
        self._in_flight[route.backend.name] += 1
        return Ticket(route.backend.name, now_ns, asked.prompt_bytes / 4, asked.most_tokens or 256)

    def first(self, ticket: Ticket, now_ns: int) -> None:
        """Its first content is here."""
        ticket.has_first = True

    def end(self, ticket: Ticket, now_ns: int, failure: Failure, input_tokens: int | None) -> None:
        """It is over, once: `failure` "" where the backend did its work (or the client left)."""
        if not ticket.is_over:
            ticket.is_over = True
            self._in_flight[ticket.backend] -= 1
