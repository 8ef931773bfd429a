"""A server that is up: where, since when, by which command, and what is known of it. Goes into run.json as it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from twinlens.record.codec import by_fields, reads
from twinlens.record.executor.facts import Facts
from twinlens.system.home_folder import as_tilde, from_tilde


@reads(from_tilde)
@dataclass(frozen=True, slots=True)
class Running:
    """One launched server. Runs with the same `id` shared it.

    `url`: as far as /v1. `pid`, `born_s`: its first process and when that began (epoch seconds, so that a recycled pid
    is no match). `ready_s`: from the start to the first answer. `environment`: the variables set for it, no others.
    `cpus`: the processors that it is kept to, if any. `process`: what its processes looked like when it was ready
    (command lines, resident bytes, threads). `startup`: seconds to load weights and to the first two first tokens, and
    the share of the model's files in the page cache before; what is not known is left out.
    `replicas`: how many servers stand behind the balancer at `url`, whose process is `pid`; `command` is that of one.
    """

    id: str
    kind: str
    url: str
    model: str
    pid: int
    born_s: float
    log: str
    started_utc: str
    ready_s: float
    command: tuple[str, ...]
    environment: Mapping[str, str]
    process: Mapping[str, Any] = field(default_factory=dict)
    facts: Facts | None = None
    cpus: tuple[int, ...] = ()
    startup: Mapping[str, Any] = field(default_factory=dict)
    replicas: int = 1

    def __json__(self) -> Any:
        return as_tilde(by_fields(self))
