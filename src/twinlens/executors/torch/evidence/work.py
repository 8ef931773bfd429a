"""Work of a run as evidence: FLOP counted, graphs compiled, ceilings measured beside it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch

from twinlens.executors.protocol import Say
from twinlens.executors.torch.ceiling.rates import ceilings_for, deciding_ceilings
from twinlens.executors.torch.evidence.graph import start_counting
from twinlens.executors.torch.evidence.memory import elements_of
from twinlens.executors.torch.model.build import parameter_count
from twinlens.executors.torch.options import TorchOptions
from twinlens.record.estimate import Estimate
from twinlens.record.executor.facts import Estimates
from twinlens.record.finding import Finding
from twinlens.spec.precision import Precision
from twinlens.spec.study import RunSpec
from twinlens.units import COUNT, FLOP

_WARM_CALLS = 3  # CUDA graphs are recorded in the second or third call of a compiled graph


def compile_first(call: Callable[[], Any], say: Say, make: Callable[[], None] | None = None) -> Finding:
    """Compile, run until graphs are recorded, and say how long that took: no row pays for it."""
    say("compiling")
    start_counting()
    begin_s = time.perf_counter()
    if make:
        make()
    for _ in range(_WARM_CALLS):
        call()
    took_s = time.perf_counter() - begin_s
    return Finding("compiled-first", "notes", "", {"took_s": took_s})


def counted_work(amount: int, name: str, spec: RunSpec, model: torch.nn.Module) -> Estimates:
    twin = ", of the eager twin of the compiled graph" if TorchOptions.of(spec.executor.options).is_compiled else ""
    parameters = sum(elements_of(p) for p in model.parameters() if getattr(p, "quant_state", None) is None)
    method = f"counted on one real pass (torch FlopCounterMode with our formulas){twin}"
    if spec.model.shape is None:  # theory is silent, and so the model itself is asked
        whole = Estimate(
            float(parameter_count(spec.model)), COUNT, "counted in the model that was built", "measured", n=1
        )
        known = {"parameters": whole}
    else:
        known = {}
    return known | {
        name: Estimate(float(amount), FLOP, method, "measured", n=1),
        "resident_parameters": Estimate(
            float(parameters), COUNT, "unquantised parameters in the model", "measured", n=1
        ),
    }


def ceilings_of_run(
    spec: RunSpec,
    device: torch.device,
    regime: Precision,
    matvec: list[tuple[int, int, str]],
    gemm: list[tuple[int, int, int]],
    layout: str | None,
) -> Estimates:
    if not spec.protocol.ceilings:
        return {}
    stored = regime.classes(spec.lens)["weights"] if spec.lens == "inference" else regime.compute
    kernel = {"int8-dynamic": "dynamic", "int8-weight": "packed", "int4-weight": "packed"}.get(regime.name, layout)
    ceilings = ceilings_for(regime.compute, matvec, gemm, str(device), weights=stored, layout=kernel)
    return {name: estimate for name, estimate in ceilings.items() if matvec or not name.startswith("matvec")}


def ceilings_again(spec: RunSpec, device: torch.device) -> Estimates:
    """After the rows, the ceilings that shares of this run are made with; empty where none were measured before."""
    if not spec.protocol.ceilings:
        return {}
    return deciding_ceilings(spec.precision.compute, str(device), serving=spec.lens == "inference")
