"""Every fuzzer by its name, and how many cases of it `make test` tries: some ten seconds."""

from __future__ import annotations

import configs
import headers
import http_bytes
import metrics_pages
import run_folders
import specs
from frame import Check

CHECKS: dict[str, tuple[Check, int]] = {
    "http": (http_bytes.check, 500),
    "specs": (specs.check, 600),
    "runs": (run_folders.check, 150),
    "configs": (configs.check, 2000),
    "headers": (headers.check, 1500),
    "metrics": (metrics_pages.check, 1500),
}
