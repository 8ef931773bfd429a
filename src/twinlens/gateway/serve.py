"""The life of a gateway: started from its file, the file read again when it changes, ended by Ctrl-C."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import signal
import socket
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path

from aiohttp import web

from twinlens.errors import BadInput, TwinlensError
from twinlens.gateway.app import App
from twinlens.gateway.launching import Up, backends_of, backends_up
from twinlens.gateway.limits.gate import Gate
from twinlens.gateway.limits.ledger import Ledger, holding
from twinlens.gateway.routing.asking import keep_asking
from twinlens.gateway.settings import CODE, GatewaySettings, read_settings
from twinlens.gateway.standing import FILE
from twinlens.gateway.watch.day import Front
from twinlens.gateway.watch.watching import Watching
from twinlens.gateway.workers import run_workers
from twinlens.system.interrupts import raising_interrupts
from twinlens.system.reading_process import keep_pandas_out

Say = Callable[[str], None]
LEDGER = "limits.sqlite"
_BACKLOG = 1024
_SHUTDOWN_S = 5.0
_LOOK_S = 1.0
_FIXED = ("host", "port", "processes", "out")
_OBJECTS = 20_000
"""New ones before garbage is looked for: those of a request are gone by then, and need no look."""
_QUIET = logging.getLogger("twinlens.gateway.http")
"""What is no request at all is answered with 400; a traceback for each would fill the disk at a stranger's wish."""
_QUIET.addHandler(logging.NullHandler())
_QUIET.propagate = False


def gateway(config: Path, *, port: int | None = None, started: Say, say: Say) -> None:
    """Serve until Ctrl-C or SIGTERM. `started` is told the address as far as /v1; `say`: what changes meanwhile.
    `port`: in place of the file's.

    Raises BadInput (TL275) for settings that are wrong and an address that cannot be had.
    """
    keep_pandas_out()
    settings = read_settings(config)
    several = settings.processes > 1
    listening = listen(settings.host, settings.port if port is None else port, shared=several)
    out = config.parent / settings.out
    with raising_interrupts(), holding(out / LEDGER), backends_up(settings, config.parent, out, say) as ups:
        if not several:
            asyncio.run(serve(config, settings, ups, listening, started, say))
            return
        with listening:  # held, not listened at: no other program takes the port between two of ours
            started(url_of(listening))
            run_workers(config, listening.getsockname()[1], ups, settings.processes, say)


async def serve(
    config: Path, settings: GatewaySettings, ups: Mapping[str, Up], listening: socket.socket, started: Say, say: Say,
    process: int | None = None,
) -> None:  # fmt: skip
    """One process of it; `process`: which, where there are several."""
    ended, changed = asyncio.Event(), asyncio.Event()
    for number, event in ((signal.SIGINT, ended), (signal.SIGTERM, ended), (signal.SIGHUP, changed)):
        with contextlib.suppress(NotImplementedError, RuntimeError):  # Windows, or a thread of a test
            asyncio.get_running_loop().add_signal_handler(number, event.set)
    out = config.parent / settings.out
    backends = backends_of(settings, ups, config.parent)
    plain = tuple({"name": each.name, "url": each.url, "identity": each.identity} for each in backends)
    front = Front(url_of(listening), plain, process)
    app = App(
        settings, backends, Gate(settings, Ledger(out / LEDGER)), Watching(out, front, settings),
        out / (FILE if process is None else f"{Path(FILE).stem}-{process}.json"),
    )  # fmt: skip
    async with running(app, listening):
        gc.collect()
        gc.freeze()  # what was imported stays: no later collection walks over it in the middle of answers
        gc.set_threshold(_OBJECTS)
        started(url_of(listening))
        following = asyncio.create_task(follow(app, config, ups, changed, say))
        asking = asyncio.create_task(keep_asking(app.router, say, app.find_token_ids))
        await ended.wait()
        following.cancel()
        asking.cancel()


async def follow(app: App, config: Path, ups: Mapping[str, Up], changed: asyncio.Event, say: Say) -> None:
    """Take the file's new settings when it changes, or SIGHUP says so. Wrong ones change nothing, and are said."""
    seen, began = _stamp(config), app.settings
    while True:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(changed.wait(), _LOOK_S)
        if not changed.is_set() and _stamp(config) in (seen, None):
            continue
        changed.clear()
        seen = _stamp(config)
        try:
            settings = await asyncio.to_thread(read_settings, config)
            backends = await asyncio.to_thread(backends_of, settings, ups, config.parent)
        except TwinlensError as wrong:
            say(f"the settings stay as they were: {wrong}")
            continue
        await app.renew(settings, backends)
        fixed = [name for name in _FIXED if getattr(settings, name) != getattr(began, name)]
        late = f"; {', '.join(fixed)}: from the next start on" if fixed else ""
        say(f"{config.name} is read again: {len(backends)} backends, policy {settings.policy}{late}")


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size


@contextlib.asynccontextmanager
async def running(app: App, listening: socket.socket) -> AsyncIterator[None]:
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
    """A socket at an address; `shared`: with other processes of this gateway. Raises BadInput (TL275)."""
    made = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if shared:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        made.bind((host, port))
        if not shared:
            made.listen(_BACKLOG)
    except (OSError, OverflowError) as error:
        made.close()
        why = (getattr(error, "strerror", None) or str(error)).partition(" (")[0]
        raise BadInput(f"the gateway cannot listen at {host}, port {port}: {why}", code=CODE) from None
    return made


def url_of(listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}/v1"
