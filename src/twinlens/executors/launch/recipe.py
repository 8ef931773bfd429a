"""A recipe describes one runtime: its command line, its sign of being ready, and how to read what it prints."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal

from twinlens.errors import BadInput
from twinlens.executors.launch.switches import Switch, Value
from twinlens.executors.quantise.plan import PLANS
from twinlens.executors.server_words import ServerWords
from twinlens.record.executor.record import Fact
from twinlens.spec.device import AskedDevice
from twinlens.spec.precision import PRECISIONS
from twinlens.spec.study import RunSpec

NOTHING: Mapping[str, str] = MappingProxyType({})
TORCH_NAMES = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}
"""How torch's runtimes call the precisions that are a mere cast."""


LOOPBACK = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class LaunchConfig:
    """The configuration of one server. `folder`: its model; `name`: what requests call it; `context_tokens`: the
    longest
    prompt and answer together; `stored`: the precision that the folder is quantised to, "" for none; `cpus`: the
    processors it is kept to, if any; `graph`: one of the recipe's graphs; `switches`: those of the recipe that are set,
    whose flags stand before `args`; `listen`: the address that it listens on."""

    spec: RunSpec
    python: str
    folder: str
    name: str
    port: int
    threads: int
    context_tokens: int
    args: tuple[str, ...] = ()
    gguf: str = ""
    stored: str = ""
    cpus: tuple[int, ...] = ()
    graph: str = "auto"
    switches: Mapping[str, Value] = field(default_factory=dict)
    listen: str = LOOPBACK

    @property
    def device(self) -> AskedDevice:
        return self.spec.device

    @property
    def precision(self) -> str:
        return self.spec.point.precision


@dataclass(frozen=True, slots=True)
class Command:
    """A command line, never a shell's, and the variables set for it."""

    argv: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ServerOutput:
    """The output of a server that is up. `pages`: JSON by path; `metrics`: the text of /metrics; `log`: what it has
    printed; `argv`: its command line; `packages`: versions by name in its Python."""

    pages: Mapping[str, Any] = field(default_factory=dict)
    metrics: str = ""
    log: str = ""
    argv: Sequence[str] = ()
    packages: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Recipe:
    """One runtime.

    `packages`: it is there if one of these is, and all of `needs`; `install`: what to say if not. `ready`: the path
    that answers 200 when it is; `pages`: JSON to read then; `metrics`: where its own figures stand. `called`: what
    requests call the model: by an alias of ours, by its folder, or as the server itself says. `tried`: False where it
    was only tested on recorded output, since no such server ran at hand. `graphs`: the values of its option
    `graph`, the first of which is how its makers ship it; empty where it has no such option.
    `also`: further packages whose versions are recorded. `words`: what its servers call their settings and metrics.
    `unasked`: flags of its command that change how it is shipped, whatever the spec says. `switches`: optimisations
    that a spec may set, each checked against what ran. `loaded`: the pattern of the log line that says in how many
    seconds the weights were loaded. `nobody_joins`: as of `Capabilities`. `tasks`: the kinds of
    `workload.task` that it serves. `quantised_here`: it loads what llm-compressor writes. `gpu_flags`: flags whose
    numbers, multiplied, are the GPUs that one server takes. `built_for`: the device
    of a package that has only one. `online`: precisions that it makes of a wide folder, with its word for each.
    `casts`: those that are a mere cast. `unable`: why it cannot serve a precision, with a format of its cache, on the
    processor of this machine; "" where it can. `beside`: the environment of its own that `make` installs it in.
    """

    kind: str
    name: str
    packages: tuple[str, ...]
    install: str
    ready: str
    command: Callable[[LaunchConfig], Command]
    facts: Callable[[ServerOutput], dict[str, Fact]]
    pages: tuple[str, ...] = ()
    start_timeout_s: float = 600.0
    needs: tuple[str, ...] = ()
    called: Literal["alias", "folder", "its own"] = "alias"
    metrics: str = "/metrics"
    needs_gguf: bool = False
    tried: bool = True
    graphs: tuple[str, ...] = ()
    also: tuple[str, ...] = ()
    words: ServerWords | None = None
    unasked: tuple[str, ...] = ()
    nobody_joins: str = ""
    switches: tuple[Switch, ...] = ()
    loaded: str = ""
    tasks: tuple[str, ...] = ("generate",)
    quantised_here: bool = False
    gpu_flags: tuple[str, ...] = ()
    online: Mapping[str, str] = field(default_factory=dict)
    built_for: Mapping[str, Literal["cpu", "cuda"]] = field(default_factory=dict)
    casts: tuple[str, ...] = tuple(TORCH_NAMES)
    unable: Callable[[str, str], str] = lambda precision, kv_format: ""
    beside: str = ""

    @property
    def precisions(self) -> tuple[str, ...]:
        """Those it is known to serve, of a wide folder or of one that is quantised for it."""
        return (*self.casts, *self.online, *(PLANS if self.quantised_here else ()))


def torch_name(order: LaunchConfig, kind: str, online: Mapping[str, str] = NOTHING) -> str:
    """The dtype of a precision, "auto" where the folder is quantised to it. Raises BadInput (TL203) for another.

    `online`: precisions that the runtime makes of a wide folder while it loads, with its word for each.
    """
    if order.stored:
        if order.stored not in PRECISIONS:
            raise BadInput(
                f"the folder {order.folder!r} is quantised by {order.stored}, which has no name here: start a server "
                'of it yourself, and attach with executor.kind = "openai-http"',
                code="TL203",
            )
        if order.precision != order.stored:
            raise BadInput(
                f"the folder {order.folder!r} is quantised to {order.stored}, and {order.precision} would be a wrong "
                f'name for it: point.precision = "{order.stored}"',
                code="TL203",
            )
        return _of_the_rest(order)
    if order.precision in online:
        if order.device.kind == "cpu":
            raise BadInput(f"{kind} makes {order.precision} of a wide folder on GPUs only", code="TL203")
        return "bfloat16"
    if order.precision not in TORCH_NAMES:
        here = kind == "vllm" and order.precision in PLANS
        or_made = ", or name a Python that has llm-compressor in executor.options.quantiser" if here else ""
        known = ", ".join((*TORCH_NAMES, *online))
        raise BadInput(
            f"{kind} is started at {known}, not {order.precision}; serve a model folder that is already "
            f"quantised, and say the flags in executor.options.args{or_made}",
            code="TL203",
        )
    return TORCH_NAMES[order.precision]


def _of_the_rest(order: LaunchConfig) -> str:
    """The dtype of what a folder does not quantise: fp32 where the precision keeps its cache so (a config in fp32 is
    cast to bf16 unasked), else the folder's own."""
    cache = order.switches.get("kv_format") or PRECISIONS[order.precision].classes("inference")["kv"]
    if cache == "fp32" and order.device.names_gpu:
        raise BadInput(
            f"{order.precision} keeps what is not quantised in fp32, and the kernels of a GPU take bf16 or fp16: set "
            'executor.options.kv_format = "bf16"',
            code="TL203",
        )
    return "float32" if cache == "fp32" else "auto"


def online_words(order: LaunchConfig, online: Mapping[str, str]) -> tuple[str, ...]:
    """The flag that quantises a wide folder while it is loaded; none where the folder is quantised, or stays wide."""
    return () if order.stored or order.precision not in online else ("--quantization", online[order.precision])


def thread_environment(threads: int) -> dict[str, str]:
    """The variables that pin the compute threads of torch, OpenMP, MKL and OpenBLAS."""
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    return dict.fromkeys(names, str(threads))


def offline_environment(order: LaunchConfig, **own: str) -> dict[str, str]:
    """The variables of a server that reads its model from a folder: no hub, its own, its threads and its GPUs."""
    return {"HF_HUB_OFFLINE": "1", **own, **thread_environment(order.threads), **gpu_environment(order.device)}


MASK = "CUDA_VISIBLE_DEVICES"


def gpu_environment(device: AskedDevice, inherited: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The GPUs that a server may see: none for "cpu", one for "cuda:N": the N-th that we may see ourselves.

    A mask that we were given (by SLURM, Kubernetes, a user; numbers, UUIDs or MIG slices) is handed on entry by entry,
    so that the server counts as CUDA does here. Raises BadInput (TL208) for a GPU that the mask does not have.
    """
    if device.kind == "cpu":
        return {MASK: ""}
    if device.index is None:
        return {}
    if MASK not in inherited:
        return {MASK: str(device.index)}
    seen = visible_gpus(inherited)
    if device.index >= len(seen):
        raise BadInput(
            f"executor.device is '{device}', but {MASK}={inherited[MASK]!r} shows {len(seen)} GPUs, numbered from 0",
            code="TL208",
        )
    return {MASK: seen[device.index]}


def visible_gpus(environment: Mapping[str, str]) -> list[str]:
    """The entries of CUDA's mask in order; as in CUDA, all from the first one on that names none are hidden."""
    visible = list[str]()
    for entry in (part.strip() for part in environment.get(MASK, "").split(",")):
        if not entry or entry.startswith("-"):
            break
        visible.append(entry)
    return visible
