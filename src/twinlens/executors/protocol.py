"""The protocols of an executor: it returns marks and counts, never metrics.

What one may have besides has a protocol of its own, and is found by `isinstance`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from twinlens.record.client import ClientRecord
from twinlens.record.executor.facts import Estimates, Facts
from twinlens.record.finding import Finding
from twinlens.record.sections import Checkpoints, GreedyAnswers, Simulated
from twinlens.record.step import Exchange, Marks
from twinlens.schedule.prompt import Words
from twinlens.schedule.request import OnResponse as OnResponse
from twinlens.schedule.request import Schedule
from twinlens.schedule.request import TakesRow as TakesRow
from twinlens.spec.study import RunSpec

if TYPE_CHECKING:
    from twinlens.network.dialect.endpoint import EndpointConfig
    from twinlens.record.sections import Running

Say = Callable[[str], None]
"""Takes a short phrase about what is going on, for people who wait."""


@runtime_checkable
class Trainer(Protocol):
    """Runs optimizer steps."""

    def open(self, spec: RunSpec, say: Say) -> Facts:
        """Build everything and report what really runs. Raises BadInput for what cannot be run here."""
        ...

    def step(self) -> Marks:
        """Do one step (or one evaluation that is due); times count from the first call. Raises StopIteration at the end
        of what there is (a recorded run)."""
        ...

    def close(self) -> None:
        """Release everything; called once, whatever happened."""
        ...


@runtime_checkable
class Server(Protocol):
    """Answers requests."""

    def open(self, spec: RunSpec, say: Say) -> Facts:
        """Build everything and report what really runs. Raises BadInput for what cannot be run here."""
        ...

    def play(self, schedule: Schedule, rows: TakesRow) -> None:
        """Start what is due until the schedule is over, reporting each request as it ends; may be called again, and
        times go on counting from the first call."""
        ...

    def close(self) -> None:
        """Release everything; called once, whatever happened."""
        ...


@runtime_checkable
class Exchanger(Protocol):
    """Lets ranks exchange a buffer."""

    def open(self, spec: RunSpec, say: Say) -> Facts:
        """Start the ranks and report what really runs. Raises BadInput for what cannot be run here, TL243 for an
        exchange that the backend does as another one."""
        ...

    def exchange(self) -> tuple[Exchange, ...]:
        """Do some exchanges, at least one and for a few tenths of a second at most; times count from the first call."""
        ...

    def close(self) -> None:
        """Release everything; called once, whatever happened."""
        ...


@runtime_checkable
class SavesWeights(Protocol):
    """A trainer whose weights can be kept (`workload.save`); its capabilities say so too."""

    def save(self, folder: Path) -> None:
        """Write the weights as a Hugging Face folder."""
        ...


@runtime_checkable
class KeepsCheckpoints(Protocol):
    """A trainer that can save while it trains (`workload.checkpoint`); its capabilities say so too."""

    @property
    def examined_s(self) -> float | None:
        """How long `open` took evidence and compared, which a training program would not do; None: not known."""
        ...

    def checkpoints(self) -> Checkpoints | None:
        """Saves so far, and the newest read back: once the rows are taken. None where none were asked for."""
        ...


@runtime_checkable
class HasDeviceMemory(Protocol):
    """An executor whose allocator on a device counts what it gives out."""

    def device_memory(self) -> dict[str, int] | None:
        """The peak over the rows, in bytes: as `DeviceMemory` has it; None on a processor."""
        ...


@runtime_checkable
class MaySimulate(Protocol):
    """A server that may be a simulated one."""

    @property
    def simulated(self) -> Simulated | None:
        """What its simulation stands on, once it is open; None of a real one."""
        ...


@runtime_checkable
class HasProcesses(Protocol):
    """An executor whose work is done by processes of its own."""

    @property
    def first_pids(self) -> Sequence[int]:
        """Those of this machine below which all the others are."""
        ...


@runtime_checkable
class RunsCommand(Protocol):
    """An executor that may start a command of the user's."""

    def log_to(self, path: Path) -> None:
        """Before `open`: write its output here."""
        ...

    def findings(self) -> tuple[Finding, ...] | None:
        """Findings on all that it has printed, in place of those that `open` gave; None where they are final."""
        ...


@runtime_checkable
class RemeasuresCeilings(Protocol):
    """An executor that can measure its ceilings again once the rows are taken: a clock may have fallen meanwhile."""

    def ceilings_again(self) -> Estimates:
        """The ceilings that shares are made with, measured as before the first row; empty where none are wanted."""
        ...


@runtime_checkable
class RepeatsAnswers(Protocol):
    """An engine in this process that answers fixed prompts greedily: two sound runs of one spec say the same."""

    def greedy(self) -> GreedyAnswers | None:
        """The answers, once the rows are taken and while the device is hot; None of a model that says no tokens."""
        ...


@runtime_checkable
class NetworkClient(Protocol):
    """A client that asks a server over a network: it can be late itself, and others may ask the same server beside
    it."""

    @property
    def origin_ns(self) -> int | None:
        """Time zero of the rows on the monotonic clock; None before the first `play`."""
        ...

    def begin_at(self, origin_ns: int) -> None:
        """Let time zero be this moment of the monotonic clock, which clients that play together share."""
        ...

    def client(self) -> ClientRecord:
        """How the client itself has done so far."""
        ...

    def endpoint(self) -> EndpointConfig:
        """The config with which another client can ask this server too."""
        ...


@runtime_checkable
class AuditableClient(Protocol):
    """A client for compliance tests: every answer as it ends, and requests other than usual."""

    @property
    def forces_length(self) -> bool:
        """Whether requests say that an answer may not end before its limit."""
        ...

    def on_response(self, on_response: OnResponse | None) -> None:
        """Hand every answer to `on_response` too, as it ends; None: no longer."""
        ...

    def asking(self, *, words: Words | None = None, in_one_piece: bool = False) -> AbstractContextManager[None]:
        """Meanwhile ask with other words, or for answers that are not streamed."""
        ...

    def play(self, schedule: Schedule, rows: TakesRow) -> None:
        """As a server's."""
        ...


@runtime_checkable
class HasNetworkClient(Protocol):
    """A server that is asked over a network."""

    @property
    def network_client(self) -> NetworkClient:
        """The client that asks it."""
        ...


def network_client_of(server: Server) -> NetworkClient | None:
    """None for a server in this process: its requests pass no network."""
    return server.network_client if isinstance(server, HasNetworkClient) else None


class Launched(Protocol):
    """A server process, in the hands of whoever started it."""

    @property
    def running(self) -> Running:
        """Its address and what is known of it; may be handed to other processes."""
        ...

    def is_well(self) -> bool:
        """Whether it lives and answers."""
        ...

    def stop(self) -> None:
        """End it and all it started; may be called again."""
        ...


@runtime_checkable
class Launcher(Protocol):
    """A server that starts its own process, so that runs can share one: starting may take minutes."""

    def key(self, spec: RunSpec) -> str:
        """Equal for specs that the same server serves."""
        ...

    def refuse_not_installed(self, spec: RunSpec) -> None:
        """Raises BadInput where the Python that would start it lacks the runtime."""
        ...

    def launch(self, spec: RunSpec, log: Path, say: Say) -> Launched:
        """Start one and wait until it is ready. Raises BadInput and ExecutorFailed, and leaves nothing running then."""
        ...

    def join(self, server: Running) -> None:
        """Before `open`: ask this server, which is up, and leave its end to its owner."""
        ...
