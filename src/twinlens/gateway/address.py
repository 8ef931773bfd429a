"""Addresses that are asked because a page or a file says so: servers of models, never the machine's own secrets.

A metadata service of a cloud answers at a link-local address and hands out keys to whoever asks from inside.
"""

from __future__ import annotations

import socket
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from urllib.parse import urlsplit

from twinlens.errors import BadInput

CODE = "TL271"
_MOST_LETTERS = 300
_NAT64 = ip_network("64:ff9b::/96")
_METADATA = (ip_address("100.100.100.200"), ip_address("fd00:ec2::254"), ip_address("192.0.0.192"),
             ip_address("168.63.129.16"))  # fmt: skip
"""Services of clouds that are not at a link-local address: Alibaba's, the IPv6 one of AWS, Oracle's, Azure's."""


def address_of(word: str) -> str:
    """The address of a server as it was typed, checked; `http://` may be left out.

    Raises BadInput (TL271) for one that is none, that holds a name and a password, or that may not be asked.
    """
    typed = word.strip()
    typed = typed if "://" in typed else f"http://{typed}"
    try:
        parts = urlsplit(typed)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        host, port, parts = "", None, urlsplit("")
    if parts.scheme not in ("http", "https") or not host or port == 0 or len(typed) > _MOST_LETTERS:
        raise BadInput(f"{word[:60]!r} is no address of a server; write http://127.0.0.1:8000/v1", code=CODE)
    if parts.username or parts.password or parts.query or parts.fragment or not typed.isprintable() or " " in typed:
        sentence = "the address of a server is its host, port and path alone; a key has a field of its own"
        raise BadInput(sentence, code=CODE)
    refuse_metadata(host)
    return typed.rstrip("/")


def refuse_metadata(host: str) -> None:
    """Raises BadInput (TL271) for a host that may not be asked; a name that is not known here is let pass."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return
    for each in found:
        if not may_ask(str(each[4][0])):
            sentence = f"{host[:60]} is a link-local address, at which clouds keep their keys; it is not asked"
            raise BadInput(sentence, code=CODE)


def is_numeric(host: str) -> bool:
    """Whether it is an address, and no name that is one."""
    try:
        ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return True


def may_ask(address: str) -> bool:
    """Whether a numeric address may be asked: not a link-local one, nor that of a metadata service, nor of many."""
    found: IPv4Address | IPv6Address = ip_address(address.partition("%")[0])
    if isinstance(found, IPv6Address):
        found = found.ipv4_mapped or found.sixtofour or (IPv4Address(found.packed[12:]) if found in _NAT64 else found)
    if found.is_loopback:
        return True
    return not (found.is_link_local or found.is_multicast or found.is_reserved or found in _METADATA)
