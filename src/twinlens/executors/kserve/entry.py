"""The capabilities of a server that is already up and speaks the KServe v2 protocol over HTTP, and its options."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from twinlens.errors import BadInput
from twinlens.executors.capabilities import ALL_ARRIVALS, Capabilities, Executor, Option, chosen_options, named
from twinlens.executors.openai.entry import OPTIONS as OF_OPENAI
from twinlens.executors.openai.entry import POOL_OPTIONS
from twinlens.network.target import KServeTarget, Target, api_key, client_pool_of, header_name, server_url

KIND = "kserve-http"
OPTIONS: Mapping[str, Option] = {
    "url": Option("", description="The address of the server, such as http://127.0.0.1:8000, without /v2."),
    "model": Option("", description="The name the server gives to its model; without it that of workload.model."),
    "version": Option("", description="The version of the model; without it the server chooses."),
    "shape": Option(
        [],
        description="The shape of one image, such as [3, 224, 224], where the server's metadata leaves it open.",
    ),
    "binary": Option(
        "auto",
        description='Send images as raw bytes behind the JSON (the extension "binary_tensor_data"): true, false, or '
        '"auto" where the server says that it takes them.',
    ),
    **{name: OF_OPENAI[name] for name in ("api_key_env", "key_header", "timeout_s", "ca_file", "kernel_stamps")},
}


def kserve_target(options: Mapping[str, Any], model: str) -> KServeTarget:
    """The options as a target. Raises BadInput (TL207) for what cannot be one."""
    chosen = chosen_options(KIND, options, {**OPTIONS, **POOL_OPTIONS}, (*POOL_OPTIONS, "binary"))
    client_pool_of(options)
    if chosen["binary"] not in ("auto", True, False):
        raise _no('binary is true, false or "auto"')
    if not all(type(side) is int and side > 0 for side in chosen["shape"]):
        raise _no(f"shape is a list of sizes such as [3, 224, 224], not {chosen['shape']!r}")
    if not 0 < chosen["timeout_s"] < math.inf:
        raise _no(f"timeout_s cannot be {chosen['timeout_s']!r}")
    url = server_url(chosen["url"], KIND, "http://127.0.0.1:8000").removesuffix("/v2")
    target = Target(
        url=url,
        timeout_s=chosen["timeout_s"],
        force_length=False,
        api_key=api_key(chosen["api_key_env"]),
        key_header=header_name(chosen["key_header"]),
        ca_file=chosen["ca_file"],
        kernel_stamps=chosen["kernel_stamps"],
        metrics_url="off",
    )
    name = chosen["model"] or model
    if not name or any(not " " < char < "\x7f" or char in "/?#%" for char in name + chosen["version"]):
        raise _no(f"model {name!r} cannot stand in the path of a request; name the server's model")
    binary = None if chosen["binary"] == "auto" else bool(chosen["binary"])
    return KServeTarget(target, name, chosen["version"], tuple(chosen["shape"]), binary)


def _no(what: str) -> BadInput:
    return BadInput(f"executor.options.{what}", code="TL207")


EXECUTOR = Executor(
    Capabilities(
        runs="elsewhere",
        families=("vit", "resnet"),
        arrivals=tuple(kind for kind in ALL_ARRIVALS if kind not in ("lockstep", "trace")),
        tasks=("classify",),
        options={**OPTIONS, **POOL_OPTIONS},
        prompts="text",
    ),
    server=named("twinlens.executors.kserve.executor:KServeServer"),
)
