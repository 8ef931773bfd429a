"""Backends are asked who they are while the gateway serves, and again until they have said it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from twinlens.gateway.backend import Backend

if TYPE_CHECKING:
    from twinlens.gateway.routing.router import Router

AGAIN_S = 10.0
_LOOK_S = 1.0


async def keep_asking(
    router: Router, say: Callable[[str], None], then: Callable[[], Awaitable[None]] | None = None
) -> None:
    """Ask each backend that has not said who it is, at once and every `AGAIN_S` seconds, and one that is there again
    after it was not: another server may have come up at its address. `then` follows where one said who
    it is. Ends when it is cancelled."""
    gone: set[str] = set()
    while True:
        gone |= {name for name, state in router.states.items() if state.health.why == "connect"}
        back = {name for name in gone if not router.states[name].health.why}
        gone -= back
        unasked = [each for each in router.backends if not each.was_asked or each.name in back]
        found = await asyncio.gather(*(asyncio.to_thread(_identified, each) for each in unasked))
        known = {id(old): new for old, new in zip(unasked, found, strict=True) if new.was_asked or new.why != old.why}
        if known:  # those that were replaced meanwhile are asked in the next round
            router.backends = tuple(known.get(id(each), each) for each in router.backends)
        for each in known.values():
            if each not in unasked:  # it says something new
                say(f"{each.name}: {each.identity}{f' ({each.why})' if each.why else ''}")
        if known and then is not None:
            await then()
        await asyncio.sleep(AGAIN_S if unasked else _LOOK_S)


def _identified(backend: Backend) -> Backend:
    from twinlens.gateway.routing.identity import identified  # half a second of imports, beside the loop

    return identified(backend)


def as_before(new: Backend, old: Backend | None) -> Backend:
    """A backend whose file was read again, with what its server has said already, where it is the same one: its
    predictions go on, and it is not asked anew."""
    if old is None or not old.was_asked or (new.url, new.key, new.ca_file) != (old.url, old.key, old.ca_file):
        return new
    if new.model not in ("", old.model) or not _is_as_measured(new, old):
        return new
    weights = new.weights or (old.measured.weights if old.measured is not None and old.predicts else "")
    return replace(
        new, model=old.model, longest_tokens=old.longest_tokens, endpoints=old.endpoints, measured=old.measured,
        identity=old.identity, why=old.why, weights=weights, gives_token_ids=old.gives_token_ids, was_asked=True,
    )  # fmt: skip


def _is_as_measured(new: Backend, old: Backend) -> bool:
    if new.measured is None or old.measured is None:
        return new.measured is old.measured
    return (new.measured.runs, new.measured.point) == (old.measured.runs, old.measured.point)
