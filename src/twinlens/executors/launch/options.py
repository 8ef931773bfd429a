"""`[executor.options]` of the launchers, checked: which Python, which flags and variables, and how to ask."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from twinlens.errors import BadInput
from twinlens.executors.capabilities import Option, refuse_wrong_options
from twinlens.executors.launch.model_folder import has_chat_template
from twinlens.executors.launch.recipe import Recipe
from twinlens.executors.launch.switches import Switch, Value, asked_of
from twinlens.executors.openai.entry import OPTIONS, POOL_OPTIONS
from twinlens.network.target import address_of
from twinlens.spec.study import RunSpec
from twinlens.spec.workload.prompt import Generate
from twinlens.spec.workload.workload import InferenceWorkload

_OWN: Mapping[str, Option] = {
    "python": Option("", description="The Python that has the runtime installed; without it this one."),
    "args": Option(
        [], tunes=True, description="Further words of the server's command line; they are kept with the run."
    ),
    "env": Option({}, tunes=True, description="Environment variables of the server; they are kept with the run."),
    "start_timeout_s": Option(0.0, description="The longest wait until the server is ready; 0 is the runtime's own."),
    "gguf": Option("", description="The GGUF file to serve, for llama.cpp."),
    "quantiser": Option(
        "",
        description="A Python that has llm-compressor, for vLLM: it makes the folder of a quantised precision, once.",
    ),
    "drop_page_cache": Option(
        False,
        description="Drop the model's files from the page cache before the start, so that loading reads the disk.",
    ),
    "host": Option(
        "127.0.0.1",
        description="This machine's name or address for clients on other machines (--on): the server then listens on "
        "all interfaces, and whoever reaches them can ask it.",
    ),
    "replicas": Option(
        1, tunes=True, description="Servers behind one balancer that sends each request to the least busy of them."
    ),
    "gpus_each": Option(
        0, tunes=True, description="GPUs that each server is given; 0 is what its own parallelism takes, else one."
    ),
    "cpus": Option([], description="Logical processors that the server is kept to, and its clients off."),
}
_MOST_REPLICAS, _MOST_GPUS = 64, 16
_GRAPH = "How the model is run: as the runtime ships it (auto), eagerly, or compiled."
_ASKING = (
    "timeout_s",
    "body",
    "force_length",
    "limit_field",
    "endpoint",
    "kernel_stamps",
    "metrics_url",
    "dcgm_url",
    "reference",
)
_CLIENT = (*_ASKING, *POOL_OPTIONS)
_SECRET = re.compile(r"(^|_)(TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?|API_?KEYS?|KEYS?|AUTH)(_|$)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Settings:
    """`start_timeout_s` None: the recipe's. `client`: options for the client that asks the server. `cpus`: the logical
    processors that the server is kept to, and its clients off; empty: no such bounds. `switches`: those that are set,
    by name."""

    python: str
    args: tuple[str, ...]
    environment: Mapping[str, str]
    start_timeout_s: float | None
    gguf: str
    client: Mapping[str, Any]
    cpus: tuple[int, ...] = ()
    graph: str = "auto"
    drops_page_cache: bool = False
    replicas: int = 1
    gpus_each: int = 0
    quantiser: str = ""
    host: str = "127.0.0.1"
    switches: Mapping[str, Value] = field(default_factory=dict)


def options_of(graphs: tuple[str, ...], switches: tuple[Switch, ...] = ()) -> dict[str, Option]:
    """Options of a launcher. `graphs`: the values of its `graph`, if it has one; `switches`: those of its runtime."""
    known = {
        **_OWN,
        **{each.name: each.option for each in switches},
        **{name: OPTIONS[name] for name in _ASKING},
        **POOL_OPTIONS,
    }
    return known | ({"graph": Option(graphs[0], graphs, tunes=True, description=_GRAPH)} if graphs else {})


def settings_of(
    kind: str,
    options: Mapping[str, Any],
    python: str,
    graphs: tuple[str, ...] = (),
    switches: tuple[Switch, ...] = (),
) -> Settings:
    """Raises BadInput (TL207) for what is unknown, has the wrong type or looks like a secret. `python`: the default."""
    refuse_wrong_options(kind, options, options_of(graphs, switches))
    chosen = {name: options.get(name, option.default) for name, option in _OWN.items()}
    for name in ("python", "gguf", "quantiser"):
        if not isinstance(chosen[name], str):
            raise BadInput(f"executor.options.{name} is a path, not {chosen[name]!r}", code="TL207")
    timeout_s = chosen["start_timeout_s"]
    if isinstance(timeout_s, bool) or not isinstance(timeout_s, int | float) or not 0 <= timeout_s < math.inf:
        raise BadInput(f"executor.options.start_timeout_s cannot be {timeout_s!r}", code="TL207")
    if not isinstance(chosen["drop_page_cache"], bool):
        wrong = chosen["drop_page_cache"]
        raise BadInput(f"executor.options.drop_page_cache is true or false, not {wrong!r}", code="TL207")
    replicas = chosen["replicas"]
    if type(replicas) is not int or not 1 <= replicas <= _MOST_REPLICAS:
        raise BadInput(f"executor.options.replicas is 1 to {_MOST_REPLICAS}, not {replicas!r}", code="TL207")
    gpus_each = chosen["gpus_each"]
    if type(gpus_each) is not int or not 0 <= gpus_each <= _MOST_GPUS:
        raise BadInput(f"executor.options.gpus_each is 0 to {_MOST_GPUS}, not {gpus_each!r}", code="TL207")
    return Settings(
        python=str(Path(chosen["python"]).expanduser()) if chosen["python"] else python,
        args=_args(chosen["args"]),
        environment=_environment(chosen["env"]),
        start_timeout_s=float(timeout_s) or None,
        gguf=str(Path(chosen["gguf"]).expanduser()) if chosen["gguf"] else "",
        client={name: options[name] for name in _CLIENT if name in options},
        cpus=_cpus(chosen["cpus"]),
        graph=options.get("graph", "auto"),
        replicas=replicas,
        gpus_each=gpus_each,
        quantiser=str(Path(chosen["quantiser"]).expanduser()) if chosen["quantiser"] else "",
        host=_host(chosen["host"], replicas),
        drops_page_cache=chosen["drop_page_cache"],
        switches=asked_of(switches, options),
    )


def _args(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or not all(isinstance(word, str) for word in value):
        raise BadInput('executor.options.args is a list of words, like ["--max-num-seqs", "16"]', code="TL207")
    for word in value:
        if "=" in word or word.startswith("-"):
            _refuse_secret(word.partition("=")[0].lstrip("-").replace("-", "_"), "args")
    return tuple(value)


def _host(value: Any, replicas: int) -> str:
    if not isinstance(value, str) or address_of(f"http://{value}:1") is None or set(value) & set("/?#@:"):
        raise BadInput(f"executor.options.host is this machine's name or address, not {value!r}", code="TL207")
    if replicas > 1 and value != "127.0.0.1":
        raise BadInput("executor.options.host and replicas: the balancer of replicas listens here alone", code="TL207")
    return value


def _cpus(value: Any) -> tuple[int, ...]:
    existing = range(os.cpu_count() or 1)
    if not isinstance(value, list | tuple) or not all(type(cpu) is int and cpu in existing for cpu in value):
        raise BadInput(
            f"executor.options.cpus is a list of logical processors, of 0 to {existing[-1]} here; not {value!r}",
            code="TL207",
        )
    if value and not hasattr(os, "sched_setaffinity"):
        raise BadInput("executor.options.cpus needs Linux: this system cannot pin processes to cores", code="TL207")
    return tuple(sorted(set(value)))


def _environment(value: Any) -> dict[str, str]:
    fits = isinstance(value, Mapping) and all(isinstance(v, str) for v in value.values())
    if not fits:
        raise BadInput(
            'executor.options.env is a table of strings, like { VLLM_CPU_KVCACHE_SPACE = "4" }', code="TL207"
        )
    for name in value:
        _refuse_secret(name, "env")
    return dict(value)


def is_secret(name: str) -> bool:
    """Whether a flag or a variable of this name is likely to hold a key or a password."""
    return bool(_SECRET.search(name))


def _refuse_secret(name: str, where: str) -> None:
    if is_secret(name):
        raise BadInput(
            f"executor.options.{where} is stored with the run, and {name!r} looks like a secret; set it in the "
            "environment that Twinlens is started from, which the server inherits and nothing records",
            code="TL207",
        )


CHOSEN = "asking /v1/completions: the folder has no chat template"


def with_endpoint(settings: Settings, recipe: Recipe, spec: RunSpec) -> Settings:
    """The settings with completions as the endpoint where chats would be refused after minutes of loading.

    An endpoint or a template that the spec names stays; a GGUF file holds its own template.
    """
    workload, folder = spec.workload, spec.model.folder
    is_chat = isinstance(workload, InferenceWorkload) and isinstance(workload.task, Generate)
    if not is_chat or folder is None or recipe.needs_gguf or has_chat_template(Path(folder)):
        return settings
    if "endpoint" in settings.client or any("chat-template" in word for word in settings.args):
        return settings
    return replace(settings, client={**settings.client, "endpoint": "completions"})
