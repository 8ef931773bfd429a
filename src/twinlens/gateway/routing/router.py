"""The router: what is in flight at each backend, and which backend the next request goes to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from twinlens.gateway.asked import Asked
from twinlens.gateway.backend import Backend
from twinlens.gateway.outcome import Failure
from twinlens.gateway.refusal import Refusal
from twinlens.gateway.routing.policy import Policies
from twinlens.gateway.routing.route import Candidate, Route, Ticket
from twinlens.gateway.routing.served import Named, named
from twinlens.gateway.routing.state import State
from twinlens.gateway.settings import GatewaySettings

_TAILS = 3.0
"""A first token is late after so many times the measured p99, or the upper end of what was predicted."""
_LEAST_FIRST_TOKEN_S = 1.0
_MOST_NAMES = 1024


class Router:
    """State of all backends, of one process. Nothing here waits."""

    def __init__(self, backends: Sequence[Backend], settings: GatewaySettings) -> None:
        self._states: dict[str, State] = {}
        self._turn = 0
        self.renew(backends, settings)

    def renew(self, backends: Sequence[Backend], settings: GatewaySettings) -> None:
        """Other backends or settings from now on; what is in flight stays counted."""
        self.settings = settings
        self._policies = Policies(settings)
        self.backends = tuple(backends)

    @property
    def backends(self) -> tuple[Backend, ...]:
        return self._backends

    @backends.setter
    def backends(self, backends: tuple[Backend, ...]) -> None:
        self._backends = backends
        said = (each.token_price or each.price for each in backends)
        currency = next((each[1] for each in said if each), "USD")
        for each in backends:
            state = self._states.setdefault(each.name, State(each))
            state.renew(each, currency)
        self._known = [self._states[each.name] for each in backends]
        self._names: dict[str, Named] = {}

    @property
    def states(self) -> Mapping[str, State]:
        """By name of the backend, those that are gone among them."""
        return self._states

    def route(self, asked: Asked, tried: frozenset[str], now_ns: int, weights: str = "") -> Route:
        """The backend to ask next, of those not `tried`; with `weights`, of those alone that have these.

        Raises Refusal: 404 for a model that nobody serves, 400 for a prompt beyond every window, 503 where no backend
        is left or meets an alias, 429 (with the seconds until one is free) where all are full or said so.
        """
        stands = self._named(asked.model)
        self._turn += 1
        candidates: list[Candidate] = []
        able: list[tuple[int, Candidate]] = []
        kinds: list[tuple[str, State]] = []
        for place in stands.places:
            state = self._known[place]
            if state.backend.name in tried:
                kind, out = "tried", "it was asked before"
            elif weights and state.backend.weights != weights:
                kind, out = "weights", "it has other weights"
            else:
                kind, out = state.out(asked, now_ns)
            candidate = state.candidate(asked, now_ns, out)
            candidates.append(candidate)
            if out:
                kinds.append((kind, state))
            else:
                able.append((place, candidate))
        if not able:
            raise _refused(kinds, asked, now_ns)
        chosen, reason = self._policies.choose(able, self._turn, asked.prefix)
        place, candidate = able[chosen]
        candidates += [Candidate(name, self._states[name].load.in_flight, out=why) for name, why in stands.out]
        return Route(
            self._known[place].backend, tuple(candidates), reason, *self._patience(self._known[place], candidate)
        )

    def begin(self, route: Route, asked: Asked, now_ns: int) -> Ticket:
        """A request goes out."""
        chosen = route.chosen
        return self._states[route.backend.name].begin(asked, now_ns, (chosen.ttft_s, chosen.tpot_s))

    def first(self, ticket: Ticket, now_ns: int) -> None:
        """Its first content is here."""
        if ticket.has_first or ticket.is_over:
            return
        ticket.has_first, ticket.first_ns = True, now_ns
        self._states[ticket.backend].first(ticket, now_ns)

    def end(
        self, ticket: Ticket, now_ns: int, failure: Failure, input_tokens: int | None, output_tokens: int | None = None,
        *, retry_after_s: float | None = None, is_busy: bool = False,
    ) -> None:  # fmt: skip
        """It is over, once: `failure` "" where the backend did its work (or refused a wrong request); "hedged" where
        the client left, or another was faster. `is_busy`: it said that it has too much to do (429)."""
        if ticket.is_over:
            return
        ticket.is_over = True
        self._states[ticket.backend].end(
            ticket, now_ns, failure, input_tokens, output_tokens, retry_after_s, is_busy=is_busy
        )

    def _named(self, model: str) -> Named:
        found = self._names.get(model)
        if found is None:
            found = named(model, self._backends, self.settings.alias)
            if len(self._names) < _MOST_NAMES:
                self._names[model] = found
        return found

    def _patience(self, state: State, candidate: Candidate) -> tuple[float, float | None]:
        """How long a first token may take, and after how long a second request may go out."""
        tails, band = state.tails_s, candidate.ttft_s
        longest_s = max(tails.get("p99", 0.0), band.high if band else 0.0)
        if not longest_s:
            return self.settings.first_token_s, None
        first_token_s = min(self.settings.deadline_s, max(_LEAST_FIRST_TOKEN_S, _TAILS * longest_s))
        return first_token_s, max(tails.get("p95", 0.0), band.high if band else 0.0)


def _refused(kinds: Sequence[tuple[str, State]], asked: Asked, now_ns: int) -> Refusal:
    """Why nobody may be asked, by what keeps those that were not tried yet."""
    left = [each for each in kinds if each[0] not in ("tried", "weights")]
    if not left:
        return Refusal(503, "no backend is left that could answer")
    waits = [state.free_in_s(now_ns) for kind, state in left if kind == "full"]
    rests = [(state.health.rests_until_ns - now_ns) / 1e9 for kind, state in left if kind == "rest"]
    if waits:
        sentence = "every backend has as many requests as it may have"
        return Refusal(429, sentence, retry_after_s=min([*waits, *(each for each in rests if each > 0)]))
    if rests:
        are_busy = all(state.health.is_busy for kind, state in left if kind == "rest")
        sentence = "every backend said that it has too much to do" if are_busy else "every backend rests after failures"
        return Refusal(429 if are_busy else 503, sentence, retry_after_s=max(1.0, min(rests)))
    windows = [state.backend.longest_tokens or 0 for kind, state in left if kind == "window"]
    if windows:
        most = f" and {asked.most_tokens} of the answer" if asked.most_tokens else ""
        sentence = (
            f"the prompt of {asked.prompt_bytes} bytes{most} are more than the {max(windows)} tokens that the longest "
            "window here holds"
        )
        return Refusal(400, sentence, code="context_length_exceeded")
    return Refusal(404, f"no backend of {asked.model[:80]!r} answers {asked.kind}", param="model")
