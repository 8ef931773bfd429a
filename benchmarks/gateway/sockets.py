"""The least that Python's event loop can do: `python sockets.py PORT UPSTREAM` passes bytes on unread."""

from __future__ import annotations

import asyncio
import sys


class Up(asyncio.Protocol):
    """To the server."""

    def __init__(self, down: Down) -> None:
        self._down = down

    def data_received(self, data: bytes) -> None:
        self._down.out.write(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._down.out.close()


class Down(asyncio.Protocol):
    """To a client, with a connection to the server of its own."""

    port = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.out: asyncio.Transport = transport  # type: ignore[assignment]
        self._waiting = b""
        self._up: asyncio.Transport | None = None
        self._opening = asyncio.create_task(self._open())

    def data_received(self, data: bytes) -> None:
        if self._up is None:
            self._waiting += data
        else:
            self._up.write(data)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._up is not None:
            self._up.close()

    async def _open(self) -> None:
        loop = asyncio.get_running_loop()
        self._up, _ = await loop.create_connection(lambda: Up(self), "127.0.0.1", Down.port)
        self._up.write(self._waiting)


async def _serve(port: int) -> None:
    server = await asyncio.get_running_loop().create_server(Down, "127.0.0.1", port, backlog=1024)
    await server.serve_forever()


if __name__ == "__main__":
    Down.port = int(sys.argv[2].rpartition(":")[2])
    asyncio.run(_serve(int(sys.argv[1])))
