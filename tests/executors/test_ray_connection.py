"""A Ray cluster that does not answer is one sentence, and soon."""

from __future__ import annotations

import socket
import time

import pytest

from twinlens.errors import ExecutorFailed
from twinlens.executors import ray_connection
from twinlens.executors.ray_connection import connected

pytest.importorskip("ray")


def test_what_is_no_ray_client_server_is_given_up_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_connection, "_CONNECT_S", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address, begun_s = f"ray://127.0.0.1:{listener.getsockname()[1]}", time.monotonic()
        sentence = "does not answer as a Ray client server"
        with pytest.raises(ExecutorFailed, match=sentence) as caught, connected(address, "clients"):
            pass
    assert caught.value.code == "TL331"
    assert time.monotonic() - begun_s < 60, "Ray by itself takes a minute and a half"
