"""The seal on a summary: believed where this user's own program made it, from the very bytes that lie beside it.

The key is made once and lies in the user's cache. Whoever edits a summary, or brings one along, has no such key: what
they say is computed again from the rows.
"""

from __future__ import annotations

import contextlib
import hmac
import json
import os
import secrets
import tempfile
from collections.abc import Mapping
from typing import Any

from twinlens.system.document import read_bytes
from twinlens.system.home_folder import cache_folder

_KEY_BYTES = 32


def seal_of(summary: Mapping[str, Any]) -> str | None:
    """The seal on the content of a summary.json; None where this user has no key and none can be kept."""
    try:
        key = _key()
    except (OSError, ValueError):
        return None
    content = json.dumps(summary, sort_keys=True).encode()
    return hmac.new(key, content, "sha256").hexdigest() if len(key) == _KEY_BYTES else None


def is_sealed(summary: Mapping[str, Any], seal: object) -> bool:
    """Whether `seal` is the one that this user's program puts on this content."""
    right = seal_of(summary)
    return right is not None and isinstance(seal, str) and hmac.compare_digest(right.encode(), seal.encode())


def _key() -> bytes:
    path = cache_folder() / "summary-key"
    with contextlib.suppress(FileNotFoundError):
        return read_bytes(path, _KEY_BYTES)
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=path.parent) as fresh:  # for its owner only
        fresh.write(secrets.token_bytes(_KEY_BYTES))
        fresh.flush()
        with contextlib.suppress(FileExistsError):  # another process was first
            os.link(fresh.name, path)
    return read_bytes(path, _KEY_BYTES)
