"""One rank: its device and process group, its evidence, and the orders that it obeys. Needs torch."""

from __future__ import annotations

import datetime
import json
import os
from dataclasses import replace
from typing import Any

import torch
import torch.distributed as dist

from twinlens.executors.protocol import Say
from twinlens.executors.torch.device import choose_device
from twinlens.executors.torch.evidence.memory import device_memory
from twinlens.executors.torch.evidence.training import training_facts
from twinlens.executors.torch.fp32 import set_fp32
from twinlens.executors.torch.parallel.collective import timed, timed_pair
from twinlens.executors.torch.parallel.exchange import exchange_times
from twinlens.executors.torch.parallel.one_process import alone, together
from twinlens.executors.torch.parallel.options import ParallelOptions
from twinlens.executors.torch.parallel.training import RankTraining
from twinlens.executors.torch.train import refuse_unsupported
from twinlens.record.estimate import Estimate
from twinlens.record.executor.record import observed
from twinlens.spec.asked_device import AskedDevice, asked_device
from twinlens.spec.study import RunSpec
from twinlens.units import BYTES

_TIMED_PAIRS = 6


class Rank:
    """What one process of the world does; `say` tells people, through the run."""

    def __init__(self, say: Say) -> None:
        self._say = say
        self._training: RankTraining | None = None

    def obey(self, order: dict[str, Any]) -> Any:
        """The answer to one order, as plain data."""
        if order["order"] == "open":
            return self._open(RunSpec.model_validate_json(json.dumps(order["spec"])))
        if order["order"] == "join":
            return self._join(asked_device(order["device"]), order["patience_s"])
        if order["order"] == "collective":
            return timed(order["kind"], order["size_bytes"], order["repeats"], self._device)
        if order["order"] == "pair":
            delay_s = order.get("delays_s", {}).get(str(dist.get_rank()), 0.0)  # a fault that a test injects
            return timed_pair(tuple(order["ranks"]), order["size_bytes"], order["repeats"], self._device, delay_s)
        assert self._training is not None
        if order["order"] == "step":
            return self._training.step()
        if order["order"] == "evaluate":
            return self._training.evaluate(order["batches"])
        return device_memory(self._training.device)

    def close(self) -> None:
        if self._training is not None:
            self._training.batches.close()
        if dist.is_initialized():
            dist.destroy_process_group()

    def _join(self, asked: AskedDevice, patience_s: float) -> str:
        """Take the rank's own device and join the group, once; the backend's name."""
        self._device = device = _device(asked)
        torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
        backend = "nccl" if device.type == "cuda" else "gloo"
        if not dist.is_initialized():  # the run itself notices first that one hangs, and says which
            dist.init_process_group(backend, timeout=datetime.timedelta(seconds=2 * patience_s))
        return backend

    def _open(self, spec: RunSpec) -> dict[str, Any]:
        asked = ParallelOptions.of(spec.executor.options)
        backend = self._join(spec.device, asked.patience_s)
        device = self._device
        refuse_unsupported(spec.point.precision, device)
        set_fp32(spec.point.precision)
        self._say("building the model")
        # What the evidence asks of the options are those of one process.
        plain = spec.model_copy(update={"executor": spec.executor.model_copy(update={"options": {}})})
        self._training = training = RankTraining(plain, asked, dist.get_rank(), device)
        facts = training_facts(training, self._say)
        training.optimizer.state.clear()
        memory = dict(facts.memory)
        if training.divided.buckets is not None:
            held = float(sum(training.divided.buckets.storages.values()))
            memory["buckets_bytes"] = Estimate(held, BYTES, "buffers of gradient buckets", "measured", n=1)
        if asked.parallel == "fsdp2":  # what autograd keeps there holds gathered weights too
            memory["activations_bytes"] = Estimate.absent(BYTES, "gathered weights cannot be told from activations")
        fields = dict(facts.executor.facts) | {
            "training.strategy": observed(_strategy(asked, backend), "torch.distributed"),
            "training.world_size": observed(dist.get_world_size(), "torch.distributed.get_world_size"),
        }
        facts = replace(facts, executor=type(facts.executor)(fields), memory=memory)
        self._say("timing the exchange of gradients")
        exchanged = exchange_times(training, _TIMED_PAIRS)
        compared = {}
        if asked.compared_steps:
            self._say("comparing with one process")
            compared = {
                "alone": alone(training, asked.compared_steps),
                "together": together(training, asked.compared_steps),
            }
        return {"facts": facts.to_json(), "exchange": exchanged, "compared": compared, "backend": backend}


def _device(asked: AskedDevice) -> torch.device:
    """A GPU of its own for each rank, or its share of the processor."""
    chosen = choose_device(asked)
    if chosen.type != "cuda":
        return chosen
    own = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(own)
    return own


def _strategy(asked: ParallelOptions, backend: str) -> str:
    kept = ", gathered weights kept" if asked.parallel == "fsdp2" and asked.reshard == "no" else ""
    return f"{asked.parallel}{kept}, {backend}"
