"""One site for the tests of pages: served in a thread, over loopback, from folders of the caller."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path

from aiohttp import web

from twinlens.web.place import Place
from twinlens.web.server import app_of, listen


@contextlib.contextmanager
def site(*folders: Path, out: Path | None = None, token: str = "") -> Iterator[str]:
    """The site of some folders, with its address ending in "/"."""
    listening = listen("127.0.0.1", 0)
    port = listening.getsockname()[1]
    place = Place(folders, out or folders[0], port, token)
    loop, up, over = asyncio.new_event_loop(), threading.Event(), asyncio.Event()

    async def run() -> None:
        runner = web.AppRunner(app_of(place), access_log=None, shutdown_timeout=1.0)
        await runner.setup()
        await web.SockSite(runner, listening).start()
        up.set()
        await over.wait()
        await runner.cleanup()

    thread = threading.Thread(target=lambda: loop.run_until_complete(run()), daemon=True)
    thread.start()
    up.wait(30)
    try:
        yield f"http://127.0.0.1:{port}/"
    finally:
        loop.call_soon_threadsafe(over.set)
        thread.join(30)
