"""Options for the number of clients and where they run, shared by all executors that are asked over HTTP."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from twinlens.errors import BadInput
from twinlens.executors.capabilities import Option
from twinlens.executors.ray_connection import is_cluster

POOL_OPTIONS: Mapping[str, Option] = {
    "clients": Option(description='How many client processes share the load; "auto" takes as many as are needed.'),
    "on": Option(description="The Ray cluster on which the clients run: ray://HOST:PORT, or ray://local."),
}
_MOST = 1024


@dataclass(frozen=True, slots=True)
class ClientPool:
    """`clients`: so many processes, "auto" for as many as are needed, None where nothing was said.

    `on`: None for this machine, else a Ray cluster: "ray://HOST:PORT", or "ray://local" for the one that this machine
    belongs to, or that is started here.
    """

    clients: int | Literal["auto"] | None = None
    on: str | None = None

    @property
    def is_one(self) -> bool:
        """Whether the client is this process and no other."""
        return self.on is None and self.clients in (None, 1)


def client_pool_of(options: Mapping[str, Any]) -> ClientPool:
    """The client pool that the options of an executor ask for. Raises BadInput (TL207)."""
    clients, on = options.get("clients"), options.get("on") or None
    counted = isinstance(clients, int) and not isinstance(clients, bool) and 0 < clients <= _MOST
    if not counted and clients not in (None, "auto"):
        raise BadInput(
            f'executor.options.clients is a number of processes, at most {_MOST}, or "auto"; not {clients!r}',
            code="TL207",
        )
    if on is not None and not is_cluster(on):
        raise BadInput(f"clients run here or on Ray: ray://HOST:PORT or ray://local, not {on!r}", code="TL207")
    return ClientPool(clients, on)


def without_pool(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options without those read here."""
    return {name: value for name, value in options.items() if name not in POOL_OPTIONS}
