"""This machine as a device of plans: probed on demand by a process of its own, and kept while the site runs."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

from aiohttp import web

from twinlens.errors import ExecutorFailed
from twinlens.reporting.display import clean

_COMMAND = (sys.executable, "-m", "twinlens", "probe", "--json", "--quiet")
AFTERWARDS = "/plan/fit?model=8B&device=this&precision=int4&users=1"


@dataclass(slots=True)
class This:
    """`file`: what the probe wrote, None before; `taken`: when. `running`: a probe that is under way."""

    file: Path | None = None
    taken: str = ""
    running: asyncio.subprocess.Process | None = None
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


THIS = web.AppKey("this", This)


async def probe(request: web.Request) -> web.StreamResponse:
    """Probe this machine and go on to a plan for it; a second request waits for the first.

    Raises ExecutorFailed (TL300) with the probe's own sentence.
    """
    this = request.app[THIS]
    if this.lock.locked():
        async with this.lock:
            pass
    else:
        async with this.lock:
            await _probed(this)
    raise web.HTTPSeeOther(AFTERWARDS)


async def _probed(this: This) -> None:
    pipe = asyncio.subprocess.PIPE
    this.running = await asyncio.create_subprocess_exec(*_COMMAND, stdout=pipe, stderr=pipe)
    try:
        told, wrong = await this.running.communicate()
        if this.running.returncode:
            lines = wrong.decode(errors="replace").strip().splitlines() or ["it ended without a word"]
            raise ExecutorFailed(f"this machine was not probed: {clean(lines[-1], 200)}", code="TL300")
    finally:
        this.running = None
    if this.file is None:
        this.file = Path(tempfile.mkdtemp(prefix="twinlens-")) / "machine.json"
    from twinlens.record.store import now_utc

    this.file.write_bytes(told)
    this.taken = now_utc()


async def kept(app: web.Application) -> AsyncIterator[None]:
    """The life of it: a probe that still runs is ended with the site, and its file goes."""
    this = app[THIS]
    yield
    if this.running is not None:
        with contextlib.suppress(ProcessLookupError):
            this.running.terminate()
    if this.file is not None:
        shutil.rmtree(this.file.parent, ignore_errors=True)
