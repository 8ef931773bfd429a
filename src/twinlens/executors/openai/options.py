"""`[executor.options]` of `openai-http`, with their defaults."""

from __future__ import annotations

from typing import Any

DEFAULTS: dict[str, Any] = {
    "url": "",
    "api_key_env": "",
    "endpoint": "chat",
    "model": "",
    "timeout_s": 300.0,
    "force_length": "auto",
    "limit_field": "max_tokens",
    "body": {},
    "ca_file": "",
    "kernel_stamps": True,
    "probe": True,
    "metrics_url": "",
}
