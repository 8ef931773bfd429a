"""The files that pages load: ours, the style of documents, and Vega, made once of what the chart library ships."""

from __future__ import annotations

import asyncio
import gzip
import subprocess
import sys
from functools import lru_cache
from hashlib import sha256
from pathlib import Path

from aiohttp import web

from twinlens.web.page import templates

_TYPES = {"css": "text/css", "js": "text/javascript"}
VEGA, STYLE = "vega.js", "style.css"
_BUNDLE = "import sys, vl_convert; sys.stdout.buffer.write(vl_convert.javascript_bundle().encode())"
"""In a process of its own: an engine of JavaScript makes it, whose 130 MB would stay."""
_STATIC = Path(__file__).parent / "static"


async def static_file(request: web.Request) -> web.Response:
    """One file by its name; packed where the browser takes that."""
    found = await asyncio.to_thread(content_of, request.match_info["name"])
    if found is None:
        raise web.HTTPNotFound(text="there is no such file")
    plain, packed, tag = found
    headers = {"ETag": f'"{tag}"', "Cache-Control": "max-age=3600" if request.query_string else "no-cache"}
    if request.headers.get("If-None-Match") == f'"{tag}"':
        return web.Response(status=304, headers=headers)
    kind = _TYPES[request.match_info["name"].rpartition(".")[2]]
    if "gzip" in request.headers.get("Accept-Encoding", ""):
        return web.Response(
            body=packed, content_type=kind, charset="utf-8", headers=headers | {"Content-Encoding": "gzip"}
        )
    return web.Response(body=plain, content_type=kind, charset="utf-8", headers=headers)


@lru_cache(maxsize=64)
def content_of(name: str) -> tuple[bytes, bytes, str] | None:
    """A file plain and packed, and the tag of its content; None for a name that is none of ours."""
    if name == VEGA:
        made = subprocess.run([sys.executable, "-P", "-c", _BUNDLE], capture_output=True, check=True)
        text = f"{{{made.stdout.decode()}}}"
    elif name == STYLE:
        text = templates().get_template("style.css.j2").render()
    elif name in _ours():
        text = (_STATIC / name).read_text("utf-8")
    else:
        return None
    plain = text.encode()
    return plain, gzip.compress(plain, mtime=0), sha256(plain).hexdigest()[:16]


@lru_cache(maxsize=1)
def _ours() -> frozenset[str]:
    return frozenset(each.name for each in _STATIC.iterdir() if each.name.rpartition(".")[2] in _TYPES)
