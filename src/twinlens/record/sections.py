"""Sections of run.json beside spec and executor: a type for every one that is read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from twinlens.record.client import Calibration, ClientSection
from twinlens.record.codec import by_fields, reads
from twinlens.record.column import Listener, Pairing
from twinlens.record.estimate import Estimate
from twinlens.record.executor.facts import Facts, ceilings_of
from twinlens.record.finding import Finding
from twinlens.record.samples import ServerReading
from twinlens.system.home_folder import as_tilde, from_tilde

# Results of compliance tests, and the parts of an answer that they need and rows do not keep.

Ruling = Literal["pass", "fail", "not applicable", "not enough"]
"""`not enough`: too few requests, or too much noise, to say either."""


@dataclass(frozen=True, slots=True)
class Response:
    """One answer, as the server said it.

    `text`: the content, without reasoning; `first`: its first chunk. `chunks`: how many held tokens. `counted_tokens`:
    the server's `usage`, `prompt_tokens` its count of the prompt, `finish` its reason to end: None where it gave none.
    `late_chunks`: chunks with text after the one that gave the reason to end; `reasoning_chunks`: those with reasoning.
    """

    text: str
    first: str
    chunks: int
    counted_tokens: int | None = None
    prompt_tokens: int | None = None
    finish: str | None = None
    late_chunks: int = 0
    reasoning_chunks: int = 0

    @property
    def tokens(self) -> int:
        """Output tokens: as counted by the server, else one a chunk."""
        return self.chunks if self.counted_tokens is None else self.counted_tokens


@dataclass(frozen=True, slots=True)
class ComplianceTest:
    """One guard's ruling. `id`: caching, tokens, answers or length; `after`: the MLPerf test that it follows.

    `reason`: why, with the numbers that decided. `evidence`: every number behind it, by name.
    """

    id: str
    after: str
    ruling: Ruling
    reason: Finding
    evidence: dict[str, Estimate] = field(default_factory=dict)


# A server that is up: where, since when, by which command, and what is known of it.


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


# Greedy answers of a served system to a few prompts that all points of a study share, kept whole to be compared.


@dataclass(frozen=True, slots=True)
class GreedyAnswer:
    """`text`: the content, without reasoning; `tokens`: how many it has, by the server's count."""

    text: str
    tokens: int


@dataclass(frozen=True, slots=True)
class GreedyAnswers:
    """`prompts`: identifies the prompts and limits; answers under another one are to other questions.

    `answers`: one per prompt, in their order; None where none came.
    """

    prompts: str
    answers: tuple[GreedyAnswer | None, ...]


# Saves of a training run, the state read back from them, and the recovery from a lost rank: times and counts.


@dataclass(frozen=True, slots=True)
class Save:
    """One save, after optimizer step `step` (from 1); times in ns on the clock of the rows.

    `durable_ns`: when all of it was on storage; None where that was not seen.
    """

    step: int
    begin_ns: int
    blocked_ns: int
    durable_ns: int | None = None


@dataclass(frozen=True, slots=True)
class Resumed:
    """Steps done again from a save: how many were done before, and the worst relative difference of their losses.

    `worst`: None where no step has a finite loss both times. `unknown`: steps of which a loss is absent or not finite
    either time, which are not equal.
    """

    steps: int
    worst: float | None
    tolerance: float
    unknown: int = 0

    @property
    def is_equal(self) -> bool | None:
        """None where nothing was compared."""
        if self.unknown:
            return False
        return None if self.worst is None else self.worst <= self.tolerance


@dataclass(frozen=True, slots=True)
class Restore:
    """State read back when the rows were taken. `storage_s`: with the page cache told to drop the files before, None
    where the system takes no such advice; `cache_s`: a second time, from the page cache."""

    step: int
    storage_s: float | None
    cache_s: float
    resumed: Resumed


@dataclass(frozen=True, slots=True)
class Recovery:
    """From the kill of a rank to training that goes on, in ns on the clock of the rows.

    `killed_ns` ≤ `noticed_ns` ≤ `restarted_ns` (all ranks built their model again) ≤ `loaded_ns`. `restarts`: attempts
    of torchrun; `from_step`: the last step that the save held; `resumed`: the steps repeated.
    """

    rank: int
    at_step: int
    from_step: int
    restarts: int
    killed_ns: int
    noticed_ns: int
    restarted_ns: int
    loaded_ns: int
    resumed: Resumed


@dataclass(frozen=True, slots=True)
class Checkpoints:
    """All of a run. `size_bytes`: of one save, in its files; `filesystem`: the type of that of the folder;
    `free_bytes`: before the first save."""

    mode: str
    every_steps: int
    filesystem: str
    free_bytes: int
    size_bytes: int | None = None
    saves: tuple[Save, ...] = ()
    restore: Restore | None = None
    recovery: Recovery | None = None


@dataclass(frozen=True, slots=True)
class DeviceMemory:
    """The allocator's peaks over the rows, in bytes: what it gave out, and what it kept from the device for that. Of
    several boards their sums, and what the fullest one gave out."""

    allocated_peak_bytes: int
    reserved_peak_bytes: int
    boards: int = 1
    fullest_peak_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Simulated:
    """What a simulated run stands on. `law`: its constants by name, each with its unit in the name, as plain values.

    `origin`: modelled (theory and a device), fitted (to measured runs) or quoted (a table). `source`: which. `rules`:
    the engine's flags that are not as shipped, by name; `rules_from`: the release they were read from. `seed`: of
    lengths, arrivals and noise. `not_modelled`: what a real server has and this one lacks, in plain clauses.
    `horizon_s`: where it was stopped with requests under way; None: it ended by itself.
    """

    origin: Literal["modelled", "fitted", "quoted"]
    source: str
    rules_from: str
    law: Mapping[str, Any]
    rules: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0
    not_modelled: tuple[str, ...] = ()
    horizon_s: float | None = None


Role = Literal["default", "tuned", "candidate"]


@dataclass(frozen=True, slots=True)
class Tuned:
    """What a run was in a tuning. `bound`: the hash of the terms, equal for all executors that were tuned alike.
    `role`: measured again as the default or as the winner, or a candidate of the search. `settings`: by short name."""

    bound: str
    role: Role
    terms: Mapping[str, Any]
    settings: Mapping[str, Any]


def _present(data: Mapping[str, Any]) -> dict[str, Any]:
    """What a run.json, of an older version too, says at all."""
    known = {name: value for name, value in data.items() if value is not None}
    return known | {"ceilings_after": ceilings_of(known.get("ceilings_after", {}))}


@reads(_present)
@dataclass(frozen=True, slots=True)
class Sections:
    """Each section, absent where the run has none.

    `state`: as it was written down; `Run.state` knows of runs that were killed since. `place`: where the work was
    done, as `Run.place` says it. `attempt`: which one at its repeat, from 1. `rows`: how many there were at the end.
    `took_s`: wall time of a run of a search. `extended`: how often the run was doubled until it had settled.
    `refused`: it was never measured, as its precision cannot be had here. `unusable_trace_rows`: rows of a trace that
    could not be sent. `pairing`: with whom it took turns; `listener`: what its address cost there. `client`,
    `calibration`: what a client over a network counted, and what it could do. `server`: the launched server.
    `server_metrics`: how the server's own figures were read. `guards`: the rulings. `greedy`: answers to prompts
    that all points share. `ceilings_after`: ceilings measured again once the rows were taken; earlier ones are
    among the facts. `startup_s`: from the call of a trainer to its first step, less what Twinlens examined meanwhile.
    `checkpoints`: saves, what reading them back took, and the recovery from a lost rank.
    `simulated`: what it stands on, of a run that nothing was measured for. `tuned`: what it was in a tuning.
    """

    state: str = "finished"
    place: str | None = None
    attempt: int = 1
    rows: int | None = None
    took_s: float | None = None
    extended: int = 0
    refused: bool = False
    unusable_trace_rows: int = 0
    device_memory: DeviceMemory | None = None
    pairing: Pairing | None = None
    listener: Listener | None = None
    client: ClientSection | None = None
    calibration: Calibration | None = None
    server: Running | None = None
    server_metrics: ServerReading | None = None
    guards: tuple[ComplianceTest, ...] = ()
    greedy: GreedyAnswers | None = None
    ceilings_after: Mapping[str, Estimate] = field(default_factory=dict)
    startup_s: float | None = None
    checkpoints: Checkpoints | None = None
    simulated: Simulated | None = None
    tuned: Tuned | None = None
