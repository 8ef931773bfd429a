"""The least that aiohttp can do: `python splice.py PORT UPSTREAM` passes bodies and answers on unread."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator

import aiohttp
from aiohttp import web


def application(upstream: str) -> web.Application:
    """`upstream`: as far as the port."""
    app = web.Application()

    async def connected(app: web.Application) -> AsyncIterator[None]:
        connector = aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(connector=connector, read_bufsize=2**18) as session:
            app["session"] = session
            yield

    async def passed(request: web.Request) -> web.StreamResponse:
        headers = {"Content-Type": "application/json"}
        body = await request.read()
        async with request.app["session"].post(upstream + request.path, data=body, headers=headers) as answer:
            response = web.StreamResponse(headers={"Content-Type": answer.headers["Content-Type"]})
            await response.prepare(request)
            async for data in answer.content.iter_any():
                await response.write(data)
            await response.write_eof()
            return response

    async def health(request: web.Request) -> web.Response:
        return web.json_response({"status": "ok"})

    app.cleanup_ctx.append(connected)
    app.router.add_post("/{path:.*}", passed)
    app.router.add_get("/health", health)
    return app


if __name__ == "__main__":
    web.run_app(application(sys.argv[2]), host="127.0.0.1", port=int(sys.argv[1]), print=None, access_log=None)
