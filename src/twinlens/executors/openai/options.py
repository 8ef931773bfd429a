"""`[executor.options]` of `openai-http`, with their defaults."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from twinlens.executors.capabilities import Option

OPTIONS: Mapping[str, Option] = {
    "url": Option("", description="The address of the server's API, such as http://127.0.0.1:8000/v1."),
    "api_key_env": Option(
        "", description="The environment variable that holds the key; the key itself is kept nowhere."
    ),
    "key_header": Option(
        "Authorization",
        description="The header of the key: Authorization, as a bearer token; api-key, x-api-key or another, as it is.",
    ),
    "endpoint": Option(
        "chat",
        description='The endpoint that is asked: "chat" or "completions"; of a task in one piece that of the task, and '
        '"score" for rankings through /v1/score.',
    ),
    "model": Option("", description="The name the server gives to its model; without it the server is asked."),
    "timeout_s": Option(300.0, description="The longest that a request may take."),
    "force_length": Option(
        "auto",
        description='Force the length of answers by ignore_eos and min_tokens: true, false, or "auto" where the server '
        "takes them.",
    ),
    "limit_field": Option(
        "max_tokens", description="The field that limits an answer: max_tokens or max_completion_tokens."
    ),
    "body": Option({}, description="Further fields of every request."),
    "ca_file": Option("", description="The certificates that the server's is checked against, where it is not public."),
    "kernel_stamps": Option(
        True, description="Take the kernel's time stamps of what is received, where it gives them."
    ),
    "probe": Option(True, description="Send one short request before the run, to see what the server takes."),
    "metrics_url": Option("", description='The server\'s metrics page; "" for the usual place, "off" for none.'),
    "reference": Option(
        "",
        description="What fidelity is compared with: a folder of the same weights before they were quantised, or the "
        "address of a reference server; without it the folder that a launched server is given, in fp32.",
    ),
    "dcgm_url": Option("", description="The page of dcgm-exporter on the server's machine, for counters of its GPUs."),
}
DEFAULTS: Mapping[str, Any] = {name: option.default for name, option in OPTIONS.items()}
