"""Start and end of a simulated server: on the loopback interface, in this thread or in one of its own."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import TYPE_CHECKING

from twinlens.errors import BadInput
from twinlens.simulation.engine import Engine
from twinlens.simulation.law import StepLaw
from twinlens.simulation.noise import Noise
from twinlens.simulation.routing import Routing
from twinlens.simulation.rules import Rules
from twinlens.simulation.server.asked import Served
from twinlens.simulation.server.fault import faults_of
from twinlens.simulation.server.replicas import Replicas
from twinlens.simulation.server.tokens import count_of

if TYPE_CHECKING:
    from twinlens.simulation.server.app import App

CODE = "TL246"
_MOST_SPEED = 1000.0
_BACKLOG = 4096


@dataclass(frozen=True, slots=True)
class Settings:
    """How a simulated server answers. `port` 0: a free one. `speed`: seconds of the simulation in one of the clock.

    `fail`: injected failures, as `fault.faults_of` reads them, drawn from `seed`. `answer_tokens`: mean length at which
    answers end by themselves; None: they run to their limit. `tokenizer`: a folder with a tokenizer.json that counts
    prompts; None: by the rule of `tokens.plain_count`. `replicas`: engines behind the address, as `routing` chooses.
    """

    model: str = "simulated"
    host: str = "127.0.0.1"
    port: int = 8000
    speed: float = 1.0
    fail: str = ""
    seed: int = 0
    answer_tokens: float | None = None
    tokenizer: str | None = None
    replicas: int = 1
    routing: Routing = field(default_factory=lambda: Routing("shortest-queue"))


@dataclass(frozen=True, slots=True)
class Told:
    """A server at its end. `writes`: of tokens; `mean_lag_s`, `most_lag_s`: how late they were, None where none was.

    `most_waiting`: requests that steps found no place for, at most at one time; `waiting`: at the end.
    """

    url: str
    writes: int = 0
    mean_lag_s: float | None = None
    most_lag_s: float | None = None
    most_waiting: int = 0
    waiting: int = 0


def serve_openai(
    law: StepLaw,
    rules: Rules,
    settings: Settings | None = None,
    *,
    noise: Noise | None = None,
    started: Callable[[str], None] = lambda url: None,
) -> Told:
    """Serve until Ctrl-C or SIGTERM. `started` is told the address, as far as /v1, once it answers.

    Raises BadInput (TL246) for settings that cannot be, a port that is taken, or aiohttp that is not installed.
    """
    settings = settings or Settings()
    app, listener = _prepared(law, rules, settings, noise)
    url = _url(listener)

    async def run() -> None:
        over = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, over.set)
        await _run(app, listener, lambda: started(url), over)

    asyncio.run(run())
    return _told(app, url)


@contextlib.contextmanager
def serving(
    law: StepLaw, rules: Rules, settings: Settings | None = None, *, noise: Noise | None = None
) -> Iterator[str]:
    """The same in a thread of its own, meanwhile: yields the address, as far as /v1. Raises as `serve_openai`."""
    app, listener = _prepared(law, rules, settings or Settings(port=0), noise)
    ready, ends = threading.Event(), []

    async def run() -> None:
        over = asyncio.Event()
        ends.append((asyncio.get_running_loop(), over))
        await _run(app, listener, ready.set, over)

    thread = threading.Thread(target=asyncio.run, args=(run(),), daemon=True, name="simulated-server")
    thread.start()
    ready.wait(10)
    try:
        yield _url(listener)
    finally:
        loop, over = ends[0]
        with contextlib.suppress(RuntimeError):  # of a loop that has ended by itself, and has said why
            loop.call_soon_threadsafe(over.set)
        thread.join(10)


def _prepared(law: StepLaw, rules: Rules, settings: Settings, noise: Noise | None) -> tuple[App, socket.socket]:
    try:
        from twinlens.simulation.server.app import About, App
    except ImportError as error:
        if (error.name or "").partition(".")[0] != "aiohttp":
            raise
        raise BadInput("a simulated server needs aiohttp: pip install 'twinlens[web]'", code=CODE) from None
    _refuse(settings)
    faults = faults_of(settings.fail, settings.seed)
    engines = [Engine(rules, law, noise, number=i, tokens=False) for i in range(settings.replicas)]
    served = Served(settings.model, count_of(settings.tokenizer), rules.max_model_len, settings.answer_tokens)
    replicas = Replicas(engines, settings.routing, law.before_s, law.after_s)
    return App(About(served, law, rules, settings.speed, settings.seed), replicas, faults), _listener(settings)


def _refuse(settings: Settings) -> None:
    if not 0 < settings.speed <= _MOST_SPEED:
        raise BadInput(f"--speed is a number above 0 and at most {_MOST_SPEED:g}, not {settings.speed:g}", code=CODE)
    if settings.answer_tokens is not None and not settings.answer_tokens >= 1:
        raise BadInput(f"answers have at least 1 token on average, not {settings.answer_tokens:g}", code=CODE)
    if settings.replicas < 1:
        raise BadInput(f"a fleet has at least one replica, not {settings.replicas}", code=CODE)
    if not _is_loopback(settings.host):
        raise BadInput(
            f"a simulated server does not listen on {settings.host[:60]!r}: who reaches it from elsewhere may take its "
            "figures for measured ones; leave the host out, which is 127.0.0.1",
            code=CODE,
        )


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _listener(settings: Settings) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    try:
        listener = socket.create_server((settings.host, settings.port), family=family, backlog=_BACKLOG)
    except (OSError, OverflowError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise BadInput(
            f"port {settings.port} of {settings.host} cannot be had ({why}); name another with --port", code=CODE
        ) from None
    listener.setblocking(False)
    return listener


def _url(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}/v1"


async def _run(app: App, listener: socket.socket, started: Callable[[], None], over: asyncio.Event) -> None:
    from aiohttp import web

    runner = web.AppRunner(app.application, handler_cancellation=True, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    pace = asyncio.create_task(app.pace.run())
    try:
        await web.SockSite(runner, listener, backlog=_BACKLOG).start()
        started()
        waiting = asyncio.create_task(over.wait())
        await asyncio.wait({pace, waiting}, return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        if pace.done():
            pace.result()
    finally:
        pace.cancel()
        await runner.cleanup()
        with contextlib.suppress(asyncio.CancelledError):
            await pace


def _told(app: App, url: str) -> Told:
    lag = app.pace.lag
    most, waiting = app.pace.replicas.most_waiting, app.pace.replicas.waiting
    return Told(url, lag.writes, lag.mean_s, lag.most_s if lag.writes else None, most, waiting)
