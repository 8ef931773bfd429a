"""Every fuzzer by its name, and how many cases of it `make test` tries: some ten seconds."""

from __future__ import annotations

import http_bytes
import metrics_pages
from frame import Check

CHECKS: dict[str, tuple[Check, int]] = {
    "http": (http_bytes.check, 500),
    "metrics": (metrics_pages.check, 1500),
}
