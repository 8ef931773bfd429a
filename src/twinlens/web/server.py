"""The site as an application, and its life: started on loopback, told its address, ended by Ctrl-C."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import signal
import socket
import sys
from collections.abc import Callable, Iterable
from ipaddress import ip_address
from pathlib import Path

from aiohttp import web

from twinlens.errors import BadInput
from twinlens.system.reading_process import WithoutPandas
from twinlens.web.door import MOST_BODY_BYTES, door, sealed
from twinlens.web.place import PLACE, Place
from twinlens.web.rooms import rooms
from twinlens.web.trouble import trouble

CODE = "TL268"
_AHEAD_S = 2.0


def app_of(place: Place) -> web.Application:
    """The site of a place."""
    app = web.Application(middlewares=[trouble, door], client_max_size=MOST_BODY_BYTES)
    app[PLACE] = place
    app.on_response_prepare.append(sealed)
    for room in rooms():
        room(app)
    return app


def browse(
    folders: Iterable[Path], out: Path, *, host: str = "127.0.0.1", port: int = 0, started: Callable[[str], None]
) -> None:
    """Serve until Ctrl-C or SIGTERM. `started` is told the address once it answers.

    Raises BadInput (TL268) for a folder that is not there and for an address that cannot be used.
    """
    found = tuple(folders)
    for each in found:
        if not each.is_dir():
            raise BadInput(f"there is no folder {each}; name a folder of runs, or none for {out}", code=CODE)
    sys.meta_path.insert(0, WithoutPandas)  # 55 MB and half a second of pyarrow, for nothing here
    listening = listen(host, port)
    names = frozenset({"localhost", socket.gethostname(), host})
    token = "" if _is_loopback(host) else secrets.token_urlsafe(18)
    place = Place(found or (out,), out, listening.getsockname()[1], token, names)
    asyncio.run(_serve(place, listening, host, started))


async def _serve(place: Place, listening: socket.socket, host: str, started: Callable[[str], None]) -> None:
    runner = web.AppRunner(app_of(place), access_log=None, shutdown_timeout=2.0)
    await runner.setup()
    ended = asyncio.Event()
    for each in (signal.SIGINT, signal.SIGTERM):
        with contextlib.suppress(NotImplementedError, RuntimeError):  # Windows, or a thread of a test
            asyncio.get_running_loop().add_signal_handler(each, ended.set)
    try:
        await web.SockSite(runner, listening).start()
        shown = f"[{host}]" if ":" in host else host
        started(f"http://{shown}:{place.port}/" + (f"?token={place.token}" if place.token else ""))
        ahead = asyncio.create_task(_load_ahead())
        await ended.wait()
        ahead.cancel()
    finally:
        await runner.cleanup()


async def _load_ahead() -> None:
    """What plans need, once the first page has had its time: a slider answers at once, and the start stays short."""
    await asyncio.sleep(_AHEAD_S)
    from twinlens.web.ask.asking import load_ahead

    await asyncio.to_thread(load_ahead)


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens. Raises BadInput (TL268) for an address or a port that cannot be had."""
    try:
        return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except (OSError, OverflowError) as error:
        why = (getattr(error, "strerror", None) or str(error)).partition(" (")[0]
        raise BadInput(f"the site cannot listen at {host}, port {port}: {why}; --port 0 takes a free one",
                       code=CODE) from None  # fmt: skip
