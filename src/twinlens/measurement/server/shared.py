"""Launched servers over a study: one at a time, shared by the runs it can serve, replaced when it has died."""

from __future__ import annotations

import contextlib
import secrets
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

from twinlens.errors import BadInput, ExecutorFailed
from twinlens.executors.launch.replicas import replicas_of
from twinlens.executors.protocol import Exchanger, Launched, Launcher, Server, Trainer
from twinlens.executors.registry import launcher, launches
from twinlens.measurement.machine.software import loaded_libraries, performance_environment
from twinlens.record.codec import encode
from twinlens.record.executor.record import Fact, declared, observed, unknown
from twinlens.record.sections import Running
from twinlens.record.store import update_run
from twinlens.spec.protocol import Stall
from twinlens.spec.study import RunSpec
from twinlens.system.log import read_log, telling_line
from twinlens.system.nvml import Gpu, open_gpus
from twinlens.system.processes import is_alive, tree

Phrase = Callable[[str], None]


class SharedServer:
    """`of` gives the server for a run; the one before is stopped when another is needed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._up: Launched | None = None
        self._key: str | None = None
        self._failed: dict[str, ExecutorFailed] = {}

    def of(self, spec: RunSpec, say: Phrase) -> Running | None:
        """The server that serves `spec`, started if it is not up and well; None for executors that start none.

        Repeats never share one. Raises what `Launcher.launch` raises.
        """
        starter = launcher(spec.executor.kind)
        if starter is None:
            self.stop()
            return None
        key = f"{spec.repeat}/{starter.key(spec)}"
        if self._up is None or key != self._key or not self._up.is_well():
            self.stop()
            if key in self._failed:  # its runs would each wait as long and hear the same
                raise self._failed[key]
            self._up, self._key = self._started(starter, spec, key, say), key
        return self._up.running

    def _started(self, starter: Launcher, spec: RunSpec, key: str, say: Phrase) -> Launched:
        log = self._folder / "servers" / f"{spec.executor.kind}_{secrets.token_hex(2)}.log"
        try:
            return starter.launch(spec, log, say)
        except ExecutorFailed as error:
            self._failed[key] = error
            raise

    def stop(self) -> None:
        """End the one that is up, if any."""
        if self._up is not None:
            up, self._up = self._up, None
            up.stop()


@contextmanager
def shared_server(folder: Path) -> Iterator[SharedServer]:
    """One whose last server is stopped at the end, whatever happens. Logs go to `folder`/servers."""
    shared = SharedServer(folder)
    try:
        yield shared
    finally:
        shared.stop()


@contextmanager
def joined(
    opened: Trainer | Server | Exchanger, folder: Path, spec: RunSpec, say: Phrase, handed: Running | None
) -> Iterator[Running | None]:
    """`opened` asks the server it was handed, or one of its own that ends here; None for what starts no server.

    Raises ExecutorFailed (TL305) at the end if the server has not lived through the run.
    """
    if not isinstance(opened, Launcher):
        yield None
        return
    own: Launched | None = None
    if handed is None:
        own = opened.launch(spec, folder / "server.log", say)
        handed = own.running
        update_run(folder, server=encode(handed))
    try:
        opened.join(handed)
        try:
            yield handed
        except ExecutorFailed as error:
            if error.code != "TL306" or is_alive(handed.pid, handed.born_s):
                raise
        _keep_replicas(folder, handed)
        if not is_alive(handed.pid, handed.born_s):
            raise ExecutorFailed(
                f"the server ended while it was measured: {telling_line(read_log(Path(handed.log)))}; its log is "
                f"{handed.log}, and the rows after its end are failures",
                code="TL305",
            )
    finally:
        if own is not None:
            own.stop()


def _keep_replicas(folder: Path, server: Running) -> None:
    """Write down what the balancer counted, into `replicas` of run.json. Raises ExecutorFailed (TL305) where a replica
    has not lived through the run."""
    if server.replicas == 1 or not is_alive(server.pid, server.born_s):
        return
    told = replicas_of(int(server.url.rpartition(":")[2].partition("/")[0]))
    update_run(folder, replicas=told)
    dead = [one for one in told.get("replicas", ()) if not one["lives"]]
    if dead:
        names = " and ".join(f"replica {one['replica']}" for one in dead)
        lost = sum(one["lost"] for one in dead)
        raise ExecutorFailed(
            f"{names} of {server.replicas} ended while the server was measured, with {lost} requests lost; its log is "
            f"{server.log}",
            code="TL305",
        )


def stack_of(running: Running, spec: RunSpec) -> dict[str, Fact]:
    """Facts of a server's processes that this machine shows: libraries mapped, variables that change speed, GPUs
    used."""
    pids = tree(running.pid)
    maps = [Path(f"/proc/{pid}/maps") for pid in pids]
    fields = {"software.libraries": loaded_libraries(maps, "maps of the server's processes")}
    try:
        environment = performance_environment(psutil.Process(running.pid).environ())
        fields["software.environment"] = observed(environment, "environment of the server's process")
    except (psutil.Error, OSError):
        fields["software.environment"] = unknown("the environment of the server's process cannot be read")
    if spec.device.kind != "cpu" and uses_cuda(pids):
        fields["accelerator.uuid"] = boards_of(
            pids, open_gpus()[0], running.environment.get("CUDA_VISIBLE_DEVICES", "")
        )
    return fields


def boards_of(pids: Sequence[int], gpus: Sequence[Gpu], visible: str) -> Fact:
    """The boards on which NVML lists a server's processes. Where it lists none of them, as in a container, the one that
    was given to the server by its UUID, or the only one there is; otherwise nobody knows."""
    used = [gpu.uuid for gpu in gpus if not set(pids).isdisjoint(gpu.process_ids() or ())]
    if used:
        return observed(used, "GPUs on which NVML lists the server's processes")
    named = [name for name in visible.split(",") if name.startswith(("GPU-", "MIG-"))]
    if named:
        return declared(named, "CUDA_VISIBLE_DEVICES of the server, whose processes map libcuda")
    if len(gpus) == 1 and gpus[0].ask("nvmlDeviceGetMigMode") in (None, (0, 0), [0, 0]):
        return declared([gpus[0].uuid], "the only GPU here; the server's processes map libcuda")
    return unknown("NVML lists the server's processes on no GPU here, and which of them it was given has no UUID")


def uses_cuda(pids: Sequence[int]) -> bool:
    """Whether one of these processes has loaded the driver's library."""
    for pid in pids:
        with suppress(OSError):
            if "libcuda.so" in Path(f"/proc/{pid}/maps").read_text(errors="replace"):
                return True
    return False


def together(planned: Sequence[RunSpec]) -> list[RunSpec]:
    """The runs so that those which share a server follow each other within their repeat; the rest stays in order."""
    places: dict[tuple[int, str], int] = {}
    ordered = []
    for place, spec in enumerate(planned):
        starter = launcher(spec.executor.kind)
        group = (spec.repeat, f"{place}" if starter is None else starter.key(spec))
        ordered.append((spec.repeat, places.setdefault(group, place), place))
    return [planned[place] for _, _, place in sorted(ordered)]


# Fault injection: pause the server for a while in the middle of a run, to see how its clients record it.


def refuse_stall_elsewhere(spec: RunSpec) -> None:
    """Raises BadInput for a stall of a server that is not ours to stop."""
    if spec.protocol.stall is not None and not launches(spec.executor.kind):
        raise BadInput(
            f"protocol.stall stops a server that Twinlens launches, and {spec.executor.kind} launches none; "
            "leave it out or take transformers-serve",
            code="TL202",
        )


def injected_fault(running: Running | None, stall: Stall | None) -> contextlib.AbstractContextManager[None]:
    """The stall that was asked for, of the server that is up; nothing where none was."""
    if running is None or stall is None:
        return contextlib.nullcontext()
    return paused(running.pid, stall)


@contextlib.contextmanager
def paused(pid: int, stall: Stall) -> Iterator[None]:
    """Stop a process and all its children `at_s` after entering, and let them go on `for_s` later.

    They go on in any case when the block ends. A process that is gone by then is left in peace.
    """
    over = threading.Event()
    injected_fault = threading.Thread(target=_inject, args=(pid, stall, over), name="stall", daemon=True)
    injected_fault.start()
    try:
        yield
    finally:
        over.set()
        injected_fault.join()


def _inject(pid: int, stall: Stall, over: threading.Event) -> None:
    if over.wait(stall.at_s):
        return
    stopped = [process for process in _tree(pid) if _done(process.suspend)]
    try:
        over.wait(stall.for_s)
    finally:
        for process in stopped:
            _done(process.resume)


def _tree(pid: int) -> list[psutil.Process]:
    try:
        parent = psutil.Process(pid)
        return [parent, *parent.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def _done(act: Callable[[], None]) -> bool:
    try:
        act()
    except psutil.NoSuchProcess:
        return False
    return True
