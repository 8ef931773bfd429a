"""The process of an attached server that runs on this machine, so that its work is not counted as another's."""

from __future__ import annotations

import ipaddress
import socket
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import psutil

_FORWARDERS = ("docker-proxy", "rootlessport", "rootlesskit", "ssh", "sshd", "kubectl", "slirp4netns", "pasta")
"""Programs that listen for a server which is elsewhere, or in a container whose processes are not their children."""


@dataclass(frozen=True, slots=True)
class Here:
    """One on this machine. `pid`: its first process; None where it cannot be seen (another user's, a container's)."""

    pid: int | None


def server_here(url: Any) -> Here | None:
    """The server at `url`, where that is an address of this machine; None where it is another's, or no address."""
    if not isinstance(url, str):
        return None
    try:
        parts = urlsplit(url)
        port = parts.port or (443 if parts.scheme == "https" else 80)
        addresses = {info[4][0] for info in socket.getaddrinfo(parts.hostname, port, type=socket.SOCK_STREAM)}
    except (OSError, ValueError):
        return None
    if not any(_is_ours(str(address)) for address in addresses):
        return None
    return Here(_listening(port))


def _is_ours(address: str) -> bool:
    plain = address.partition("%")[0]
    if ipaddress.ip_address(plain).is_loopback:
        return True
    here = {entry.address.partition("%")[0] for entries in psutil.net_if_addrs().values() for entry in entries}
    return plain in here


def _listening(port: int) -> int | None:
    """The process that listens at a port; of several (workers that share it) the one that is the others' parent."""
    try:
        open_at = [
            connection for connection in psutil.net_connections("tcp") if connection.status == psutil.CONN_LISTEN
        ]
        pids = {connection.pid for connection in open_at if connection.laddr and connection.laddr.port == port}
        if None in pids or not pids:
            return None
        first = next((pid for pid in sorted(pids) if psutil.Process(pid).ppid() not in pids), None)
        return None if first is None or psutil.Process(first).name() in _FORWARDERS else first
    except (psutil.Error, OSError):
        return None
