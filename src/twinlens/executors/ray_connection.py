"""A Ray cluster to run something on: its address as people write it, and the connection while it is needed."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

from twinlens.errors import BadInput, ExecutorFailed

_CONNECT_S = 5.0


@contextlib.contextmanager
def connected(on: str, what: str) -> Iterator[Any]:
    """The module of Ray, connected. `what` runs there, for the sentence.

    Raises BadInput (TL207) where Ray is not installed, ExecutorFailed (TL331) where the cluster cannot be reached.
    """
    ray = _ray(what)
    if ray.is_initialized():  # a notebook's or a test's own cluster: it stays when we go
        yield ray
        return
    before = signal.getsignal(signal.SIGTERM)
    address = None if on == "ray://local" else on
    try:
        if address is not None:  # Ray itself tries for a minute and a half
            _refuse_silent(urlsplit(on).hostname or "", urlsplit(on).port or 0)
        ray.init(address, logging_level="ERROR", log_to_driver=False)
    except Exception as error:
        raise ExecutorFailed(f"the Ray cluster {on} cannot be reached ({first_line(error)})", code="TL331") from None
    try:
        with contextlib.suppress(ValueError):  # not the main thread: Ray has set no handler either
            signal.signal(signal.SIGTERM, before)
        yield ray
    finally:
        ray.shutdown()


def _refuse_silent(host: str, port: int) -> None:
    """Raises OSError where nobody takes a connection in time, or what does speaks no gRPC: Ray's client servers do."""
    import grpc  # type: ignore[import-untyped]

    socket.create_connection((host, port), _CONNECT_S).close()
    with grpc.insecure_channel(f"[{host}]:{port}" if ":" in host else f"{host}:{port}") as channel:
        try:
            grpc.channel_ready_future(channel).result(_CONNECT_S)
        except grpc.FutureTimeoutError:
            raise TimeoutError(
                f"{host}:{port} takes connections and does not answer as a Ray client server within {_CONNECT_S:g} s; "
                "its port is 10001 as a rule"
            ) from None


def first_line(error: BaseException) -> str:
    """The cause in an error of Ray: its messages are pages long, and their last line says it."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines[-1] if lines else type(error).__name__)[:200]


def _ray(what: str) -> Any:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # a cluster that is started here reports to nobody
    try:
        import ray
    except ImportError as error:
        raise BadInput(
            f"{what} on Ray need Ray ({error}); install it here and on the nodes: pip install 'twinlens[ray]'",
            code="TL207",
        ) from None
    return ray
