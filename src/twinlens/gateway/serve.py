"""The life of a gateway: started from its file, the file read again when it changes, ended by Ctrl-C."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import socket
from collections.abc import Callable
from pathlib import Path

from aiohttp import web

from twinlens.errors import BadInput
from twinlens.gateway.app import App
from twinlens.gateway.backend import Backend
from twinlens.gateway.launching import backends_up
from twinlens.gateway.limits.gate import Gate
from twinlens.gateway.settings import CODE, GatewaySettings, read_settings
from twinlens.gateway.watch.records import Records
from twinlens.system.interrupts import raising_interrupts

_BACKLOG = 1024
_SHUTDOWN_S = 5.0
_QUIET = logging.getLogger("twinlens.gateway.http")
"""What is no request at all is answered with 400; a traceback for each would fill the disk at a stranger's wish."""
_QUIET.addHandler(logging.NullHandler())
_QUIET.propagate = False


def gateway(
    config: Path, *, port: int | None = None, started: Callable[[str], None], say: Callable[[str], None]
) -> None:
    """Serve until Ctrl-C or SIGTERM. `started` is told the address as far as /v1; `say`: what changes meanwhile.
    `port`: in place of the file's.

    Raises BadInput (TL275) for settings that are wrong and an address that cannot be had.
    """
    settings = read_settings(config)
    listening = listen(settings.host, settings.port if port is None else port)
    out = config.parent / settings.out
    with raising_interrupts(), backends_up(settings, config.parent, out, say) as backends:
        asyncio.run(_serve(settings, backends, listening, started))


async def _serve(
    settings: GatewaySettings, backends: tuple[Backend, ...], listening: socket.socket, started: Callable[[str], None]
) -> None:
    ended = asyncio.Event()
    for each in (signal.SIGINT, signal.SIGTERM):
        with contextlib.suppress(NotImplementedError, RuntimeError):  # Windows, or a thread of a test
            asyncio.get_running_loop().add_signal_handler(each, ended.set)
    app = App(settings, backends, Gate(settings), Records())
    async with running(app, listening):
        started(url_of(listening))
        await ended.wait()


@contextlib.asynccontextmanager
async def running(app: App, listening: socket.socket):  # type: ignore[no-untyped-def]
    """The gateway answers while the block runs. A client that leaves ends its request at the backend too."""
    runner = web.AppRunner(
        app.application, handler_cancellation=True, access_log=None, logger=_QUIET, shutdown_timeout=_SHUTDOWN_S
    )
    await runner.setup()
    try:
        await web.SockSite(runner, listening, backlog=_BACKLOG).start()
        yield
    finally:
        await runner.cleanup()


def listen(host: str, port: int, *, shared: bool = False) -> socket.socket:
    """A socket that listens; `shared`: with other processes of this gateway. Raises BadInput (TL275)."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=_BACKLOG, reuse_port=shared)
    except (OSError, OverflowError) as error:
        why = (getattr(error, "strerror", None) or str(error)).partition(" (")[0]
        raise BadInput(f"the gateway cannot listen at {host}, port {port}: {why}", code=CODE) from None


def url_of(listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}/v1"
