"""Digests of fixed products on every device: the same inputs give the same bits on a sound device, hot or cold."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from collections.abc import Mapping

from twinlens.system.document import json_of

_PATIENCE_S = 300.0
Digests = Mapping[str, Mapping[str, str]]
"""By device, then by check."""


def in_own_process(patience_s: float = _PATIENCE_S) -> tuple[Digests, str]:
    """The digests of every device, and why there are none ("" where there are)."""
    command = [sys.executable, "-m", "twinlens.acceptance.driving.worker"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=patience_s, check=False)
    except subprocess.TimeoutExpired:
        return {}, f"the products did not end within {patience_s:.0f} s"
    if done.returncode:
        last = (done.stderr.strip().splitlines() or [f"code {done.returncode}"])[-1]
        return {}, f"the products failed: {last[:200]}"
    return json_of(done.stdout.splitlines()[-1]), ""


def digest_of(data: bytes) -> str:
    """Sixteen hex digits of SHA-256."""
    return hashlib.sha256(data).hexdigest()[:16]
