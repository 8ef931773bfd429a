"""A server that is up: where, since when, by which command, and what is known of it. Goes into run.json as it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Self

import psutil

from twinlens.record.executor.facts import Facts
from twinlens.system.home_folder import as_tilde, from_tilde


@dataclass(frozen=True, slots=True)
class Running:
    """One launched server. Runs with the same `id` shared it.

    `url`: as far as /v1. `pid`, `born_s`: its first process and when that began (epoch seconds, so that a recycled pid
    is no match). `ready_s`: from the start to the first answer. `environment`: the variables set for it, no others.
    `cpus`: the processors that it is kept to, if any. `process`: what its processes looked like when it was ready
    (command lines, resident bytes, threads).
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

    def is_up(self) -> bool:
        """Whether its first process still runs."""
        try:
            process = psutil.Process(self.pid)
            return bool(abs(process.create_time() - self.born_s) < 1.0 and process.status() != psutil.STATUS_ZOMBIE)
        except psutil.Error:
            return False

    def to_json(self) -> dict[str, Any]:
        plain = asdict(replace(self, facts=None))
        facts = self.facts.to_json() if self.facts else None
        data: dict[str, Any] = as_tilde(plain | {"command": list(self.command), "facts": facts})
        return data

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """The inverse of `to_json`, of earlier versions too, which knew no `cpus`."""
        data = from_tilde(dict(data))
        facts = data.get("facts")
        plain = {key: data[key] for key in cls.__dataclass_fields__ if key not in ("facts", "command", "cpus")}
        command, cpus = tuple(data["command"]), tuple(data.get("cpus", ()))
        return cls(**plain, command=command, cpus=cpus, facts=Facts.from_json(facts) if facts else None)
