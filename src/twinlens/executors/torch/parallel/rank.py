"""One rank: its device and process group, its evidence, and the orders that it obeys. Needs torch."""

from __future__ import annotations

import datetime
import json
import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from twinlens.executors.protocol import Say
from twinlens.executors.torch.device import choose_device, set_fp32
from twinlens.executors.torch.evidence.facts import device_facts, framework_facts
from twinlens.executors.torch.evidence.memory import device_memory, forget_peak, free_bytes
from twinlens.executors.torch.evidence.training import training_facts
from twinlens.executors.torch.parallel.entry import compared_model, stages_each, twin_numbers, with_model
from twinlens.executors.torch.parallel.exchange import exchange_of, exchange_times, stamped, timed, timed_pair
from twinlens.executors.torch.parallel.one_process import alone, looked_at, together
from twinlens.executors.torch.parallel.options import SHARDED, ParallelOptions
from twinlens.executors.torch.parallel.training import RankSaves, RankTraining
from twinlens.executors.torch.train import refuse_unsupported
from twinlens.record.codec import encode
from twinlens.record.estimate import Estimate
from twinlens.record.executor.facts import Estimates, Facts
from twinlens.record.executor.record import ExecutorRecord, Fact, declared, observed, unknown
from twinlens.spec.device import AskedDevice, asked_device
from twinlens.spec.study import RunSpec
from twinlens.spec.workload.workload import TrainingWorkload
from twinlens.system.processes import this_machine
from twinlens.units import BYTES

_TIMED_PAIRS, _WARM_EXCHANGES = 6, 5
Opening = Callable[[RunSpec, "Rank", Say], tuple[RankTraining, dict[str, Any]]]
"""Opens a run on one rank: its training, and the answer to the order."""


class Rank:
    """What one process of the world does; `say` tells people, through the run."""

    def __init__(self, say: Say, opening: Opening | None = None) -> None:
        """`opening`: another stack's, in the place of torch's own."""
        self._say, self._opening = say, opening
        self._training: RankTraining | None = None
        self._saves: RankSaves | None = None

    def obey(self, order: dict[str, Any]) -> Any:
        """The answer to one order, as plain data."""
        if order["order"] == "open":
            spec = RunSpec.model_validate_json(json.dumps(order["spec"]))
            if self._opening is None:
                return self._open(spec)
            self._training, told = self._opening(spec, self, self._say)
            return told
        if order["order"] == "join":
            return self.join(asked_device(order["device"]), order["patience_s"])
        if order["order"] == "collective":
            return timed(order["kind"], order["size_bytes"], order["repeats"], order["together"], self.device)
        if order["order"] == "room":
            return free_bytes(self.device)
        if order["order"] == "open-exchange":
            return self._open_exchange(order["kind"], order["size_bytes"])
        if order["order"] == "exchange":
            return stamped(self._exchange, order["count"], self.device)
        if order["order"] == "pair":
            delay_s = order.get("delays_s", {}).get(str(dist.get_rank()), 0.0)  # a fault that a test injects
            return timed_pair(tuple(order["ranks"]), order["size_bytes"], order["repeats"], self.device, delay_s)
        if order["order"] == "open-again":
            return self._open_again(RunSpec.model_validate_json(json.dumps(order["spec"])))
        assert self._training is not None
        if order["order"] == "step":
            return self._training.step() if self._saves is None else self._saves.step(order)
        if self._saves is not None and order["order"] == "settle":
            return self._saves.settle()
        if self._saves is not None and order["order"] == "load":
            return self._saves.load(order["folder"]) if order["folder"] else 0.0
        if self._saves is not None and order["order"] == "go-on":
            return self._saves.go_on_from(order["step"])
        if order["order"] == "evaluate":
            return self._training.evaluate(order["batches"])
        return device_memory(self._training.device)

    def close(self) -> None:
        if self._training is not None:
            self._training.batches.close()
        if dist.is_initialized():
            dist.destroy_process_group()

    def join(self, asked: AskedDevice, patience_s: float) -> str:
        """Take the rank's own device and join the group, once; the backend's name."""
        self.device = device = _device(asked)
        torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
        backend = "nccl" if device.type == "cuda" else "gloo"
        if not dist.is_initialized():  # the run itself notices first that one hangs, and says which
            timeout = datetime.timedelta(seconds=2 * patience_s)
            dist.init_process_group(backend, timeout=timeout, **_store())
        return backend

    def joined(self, spec: RunSpec, patience_s: float) -> tuple[RunSpec, str]:
        """`join` for a run: its spec with the options of one process, which are what the evidence asks for, and the
        backend. Raises BadInput (TL203) for a precision that the device lacks."""
        backend = self.join(spec.device, patience_s)
        refuse_unsupported(spec.point.precision, self.device)
        set_fp32(spec.point.precision)
        return spec.model_copy(update={"executor": spec.executor.model_copy(update={"options": {}})}), backend

    def with_place(self, facts: Facts, strategy: Fact, memory: Estimates) -> Facts:
        """Facts of one rank among others: where it runs, with how many, and in which way; `memory` besides its own."""
        own = {
            "training.strategy": strategy,
            "training.world_size": observed(dist.get_world_size(), "torch.distributed.get_world_size"),
        }
        fields = {**facts.executor.facts, **rank_fields(self.device), **own}
        return replace(facts, executor=ExecutorRecord(fields), memory={**facts.memory, **memory})

    def _open_exchange(self, kind: str, size_bytes: int) -> dict[str, Any]:
        """Buffers, some exchanges that no row is of, and facts of what runs."""
        self._exchange = exchange_of(kind, size_bytes, self.device)
        stamped(self._exchange, _WARM_EXCHANGES, self.device)
        return encode(exchange_facts(self.device))

    def _open(self, spec: RunSpec) -> dict[str, Any]:
        training, asked, backend = self._build(spec)
        begun_s = time.monotonic()
        facts = training_facts(training, self._say)
        training.optimizer.state.clear()
        memory: Estimates = {}
        if training.divided.buckets is not None:
            held = float(sum(training.divided.buckets.storages.values()))
            memory = {"buckets_bytes": Estimate(held, BYTES, "buffers of gradient buckets", "measured", n=1)}
        facts = self.with_place(facts, observed(_strategy(asked, backend), "torch.distributed"), memory)
        self._say("timing the exchange of gradients")
        exchanged = exchange_times(training, _TIMED_PAIRS)
        compared = self._compared(training, asked, spec) if asked.compared_steps else {}
        forget_peak(self.device)  # last: the comparison holds more than any row does
        examined_s = time.monotonic() - begun_s
        return {"facts": encode(facts), "exchange": exchanged, "compared": compared, "backend": backend,
                "examined_s": examined_s}  # fmt: skip

    def _compared(self, training: RankTraining, asked: ParallelOptions, spec: RunSpec) -> dict[str, Any]:
        """Losses of one process beside those of the ranks, and what a step of the run's own model exchanges."""
        model = compared_model(spec, asked.stages * stages_each(asked))
        told: dict[str, Any] = dict(twin_numbers(spec, model))
        subject = training
        if model is not spec.model:
            subject = RankTraining(with_model(training.spec, model), asked, self.device, say=self._say)
        told["alone"] = alone(subject, asked.compared_steps, self._say)
        told["together"] = together(subject, asked.compared_steps, self._say)
        if subject is not training:
            subject.batches.close()
        del subject
        told["together"] |= looked_at(training)
        return told

    def _open_again(self, spec: RunSpec) -> None:
        """After a restart: as before, without evidence."""
        training, _, _ = self._build(spec)
        training.optimizer.state.clear()
        forget_peak(self.device)

    def _build(self, spec: RunSpec) -> tuple[RankTraining, ParallelOptions, str]:
        asked = ParallelOptions.of(spec.executor.options)
        plain, backend = self.joined(spec, asked.patience_s)
        self._say("building the model")
        self._training = training = RankTraining(plain, asked, self.device, say=self._say)
        assert isinstance(spec.workload, TrainingWorkload)
        if spec.workload.checkpoint is not None:
            self._saves = RankSaves(training, spec.workload.checkpoint.mode)
        return training, asked, backend


def _store() -> dict[str, Any]:
    """Where the ranks of one attempt find one another: in a file of this machine, or as Ray has told them."""
    if (file := os.environ.get("TWINLENS_STORE")) is None:
        return {}
    attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    own = {"rank": int(os.environ["RANK"]), "world_size": int(os.environ["WORLD_SIZE"])}
    return {"init_method": f"file://{file}-{attempt}"} | own


def _device(asked: AskedDevice) -> torch.device:
    """A GPU of its own for each rank, or its share of the processor."""
    chosen = choose_device(asked)
    if chosen.type != "cuda":
        return chosen
    alone = asked.index if os.environ.get("WORLD_SIZE") == "1" else None  # several begin with the first
    own = torch.device("cuda", int(os.environ["LOCAL_RANK"]) if alone is None else alone)
    torch.cuda.set_device(own)
    return own


def _strategy(asked: ParallelOptions, backend: str) -> str:
    """In words: "hsdp, replicate 2 × shard 2 × tensor 2, gathered weights kept, gloo"."""
    parts: list[str] = [asked.parallel]
    if len(asked.mesh) > 1:
        parts.append(" × ".join(f"{axis} {size}" for axis, size in asked.mesh.items()))
    if asked.parallel == "pp":
        parts.append(f"{asked.schedule}, {asked.ranks} ranks of {stages_each(asked)} stages")
    if asked.parallel in SHARDED and asked.reshard == "no":
        parts.append("gathered weights kept")
    if asked.parallel in SHARDED and asked.reduce_precision != "fp32":
        parts.append(f"gradients added up in {asked.reduce_precision}")
    return ", ".join([*parts, backend])


def rank_fields(device: torch.device, root: Path = Path("/")) -> dict[str, Fact]:
    """Node, device and NUMA nodes of this rank, and its backend with the version of NCCL where it is that."""
    place: dict[str, Any] = {"node": this_machine(), "device": str(device)}
    if (nearest := _numa_of(device, root)) is not None:
        place["device_numa"] = nearest
    if allowed := _numa_allowed(root):
        place["process_numa"] = allowed
    return {
        "training.ranks": observed([place], "the rank of itself"),
        "interconnect.collectives": observed(_library(), "torch.distributed.get_backend"),
        "interconnect.algorithms": _algorithms(),
    }


def _library() -> str:
    backend = str(dist.get_backend())
    return f"NCCL {'.'.join(map(str, torch.cuda.nccl.version()))}" if backend == "nccl" else backend


def _algorithms() -> Fact:
    """NCCL's, where its environment names them: it has few kernels, whose names are not those of what runs in them."""
    if str(dist.get_backend()) != "nccl":
        return unknown("the backend does not name its algorithm")
    asked = {name: os.environ[name] for name in ("NCCL_ALGO", "NCCL_PROTO") if os.environ.get(name)}
    return declared(asked, "the environment") if asked else unknown("NCCL chooses by size, and does not say")


def _numa_of(device: torch.device, root: Path) -> int | None:
    """The NUMA node that a GPU hangs on; None where the kernel does not say."""
    if device.type != "cuda":
        return None
    seen = torch.cuda.get_device_properties(device)
    parts = [getattr(seen, name, None) for name in ("pci_domain_id", "pci_bus_id", "pci_device_id")]
    if None in parts:
        return None
    domain, bus, slot = (int(part or 0) for part in parts)
    address = f"{domain:04x}:{bus:02x}:{slot:02x}.0"
    try:
        node = int((root / "sys/bus/pci/devices" / address / "numa_node").read_text())
    except (OSError, ValueError):
        return None
    return node if node >= 0 else None


def _numa_allowed(root: Path) -> list[int]:
    """NUMA nodes on whose processors this process may run: all of them where nobody pinned it."""
    if not hasattr(os, "sched_getaffinity"):
        return []
    mine = os.sched_getaffinity(0)
    folders = (root / "sys/devices/system/node").glob("node[0-9]*")
    return sorted(int(each.name[4:]) for each in folders if mine & _listed(each / "cpulist"))


def _listed(file: Path) -> set[int]:
    """The kernel's "0-3,8" as numbers."""
    try:
        spans = [part.partition("-") for part in file.read_text().strip().split(",") if part]
    except OSError:
        return set()
    return {number for low, _, high in spans for number in range(int(low), int(high or low) + 1)}


_SYNCHRONISED = {
    False: "a barrier before each exchange",
    True: "a barrier before some exchanges that are queued back to back; events on the device's stream between them",
}


def exchange_facts(device: torch.device) -> Facts:
    """Backend, number of ranks, the format of elements, and torch itself."""
    world, backend = dist.get_world_size(), dist.get_backend()
    fields = framework_facts() | device_facts(device) | rank_fields(device)
    fields |= {
        "compiler.name": declared("none (eager)", "torch.distributed"),
        "training.strategy": observed(f"exchanges, {backend}", "torch.distributed.get_backend"),
        "training.world_size": observed(world, "torch.distributed.get_world_size"),
        "precision.name": declared("fp32", "the elements of buffers"),
        "protocol.synchronisation": observed(_SYNCHRONISED[device.type == "cuda"], "the loop"),
    }
    return Facts(ExecutorRecord(fields))
