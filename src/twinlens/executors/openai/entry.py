"""The capabilities of a server that is already up and speaks the OpenAI API, and options of all asked over HTTP."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from twinlens.errors import BadInput
from twinlens.executors.capabilities import ALL_ARRIVALS, Capabilities, Executor, Option, chosen_options, named
from twinlens.network.target import (
    PATHS,
    Target,
    api_key,
    client_pool_of,
    header_name,
    page_url,
    reference_of,
    server_url,
)

POOL_OPTIONS: Mapping[str, Option] = {
    "clients": Option(description='How many client processes share the load; "auto" takes as many as are needed.'),
    "on": Option(description="The Ray cluster on which the clients run: ray://HOST:PORT, or ray://local."),
}
"""Of all executors that are asked over HTTP: how many clients, and where they run."""
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


def target_of(kind: str, options: Mapping[str, Any]) -> Target:
    """The options of an executor as a target. Raises BadInput (TL207) for what cannot be one."""
    chosen = chosen_options(kind, options, {**OPTIONS, **POOL_OPTIONS}, (*POOL_OPTIONS, "force_length"))
    client_pool_of(options)
    for name in POOL_OPTIONS:
        del chosen[name]
    if chosen["endpoint"] not in PATHS or chosen["limit_field"] not in ("max_tokens", "max_completion_tokens"):
        raise BadInput(f'executor.options: endpoint is one of {", ".join(PATHS)}, limit_field "max_tokens" or '
                       '"max_completion_tokens"', code="TL207")  # fmt: skip
    if chosen["force_length"] not in ("auto", True, False):
        raise BadInput('executor.options.force_length is true, false or "auto"', code="TL207")
    if not 0 < chosen["timeout_s"] < math.inf:
        raise BadInput(f"executor.options.timeout_s cannot be {chosen['timeout_s']!r}", code="TL207")
    forced = chosen.pop("force_length")
    key, chosen["key_header"] = api_key(chosen.pop("api_key_env")), header_name(chosen["key_header"])
    chosen["url"] = server_url(chosen["url"])
    chosen["metrics_url"] = page_url("metrics_url", chosen["metrics_url"], ("", "off"))
    chosen["reference"] = reference_of(chosen["reference"])
    chosen["dcgm_url"] = page_url("dcgm_url", chosen["dcgm_url"], ("",))
    return Target(force_length=None if forced == "auto" else forced, api_key=key, **chosen)


EXECUTOR = Executor(
    Capabilities(
        runs="elsewhere",
        arrivals=ALL_ARRIVALS,
        tasks=("generate", "embed", "rerank"),
        options={**OPTIONS, **POOL_OPTIONS},
        prompts="text",
    ),
    server=named("twinlens.executors.openai.executor:OpenAIServer"),
)
