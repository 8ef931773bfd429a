"""Backends are asked who they are while the gateway serves, and again until they have said it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from twinlens.gateway.backend import Backend

if TYPE_CHECKING:
    from twinlens.gateway.routing.router import Router

AGAIN_S = 10.0
_LOOK_S = 1.0


async def keep_asking(router: Router, say: Callable[[str], None]) -> None:
    """Ask each backend that has not said who it is, at once and every `AGAIN_S` seconds; ends when it is cancelled."""
    while True:
        unasked = [each for each in router.backends if not each.was_asked]
        found = await asyncio.gather(*(asyncio.to_thread(_identified, each) for each in unasked))
        known = {id(old): new for old, new in zip(unasked, found, strict=True) if new.was_asked or new.why != old.why}
        if known:  # those that were replaced meanwhile are asked in the next round
            router.backends = tuple(known.get(id(each), each) for each in router.backends)
        for each in known.values():
            say(f"{each.name}: {each.identity}{f' ({each.why})' if each.why else ''}")
        await asyncio.sleep(AGAIN_S if unasked else _LOOK_S)


def _identified(backend: Backend) -> Backend:
    from twinlens.gateway.routing.identity import identified  # half a second of imports, beside the loop

    return identified(backend)
