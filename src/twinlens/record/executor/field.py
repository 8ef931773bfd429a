"""The fields of an executor record: each with its group, role and label.

Groups: A accelerator, B host and links, C power, heat and other work, D software, E model and precision, F workload,
G operating point, H protocol, I provenance. Roles, for a comparison of two executors: M must match, V may differ as the
declared variable, Q differs with a printed qualifier, C is context.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

Role = Literal["M", "V", "Q", "C"]
Scope = Literal["both", "training", "inference"]


@dataclass(frozen=True, slots=True)
class Field:
    """One field. `identity` fields enter the hash: hardware, software and precision, never the moment."""

    id: str
    letter: str
    role: Role
    label: str
    lens: Scope = "both"
    identity: bool = False


# letter | role | lens (b, t, i) | identity (=) or not (.) | id | label. The model, workload, point and
# protocol (E1, F, G, H) are disclosed too but are not the executor: it keeps its hash over every workload
# that it runs.
_TABLE = """
A1 V b = accelerator.vendor            accelerator vendor
A1 V b = accelerator.product           accelerator
A1 V b = accelerator.form_factor       form factor
A1 V b = accelerator.count             accelerators used
A1 C b . accelerator.uuid              device identifiers
A2 V b = accelerator.architecture      compute capability or instruction set
A3 Q b = accelerator.memory_bytes      accelerator memory
A3 Q b = accelerator.memory_type       accelerator memory type
A3 Q b = accelerator.ecc               error-correcting memory
A4 C b . accelerator.memory_bytes_per_s_spec      specified memory bandwidth
A4 C b . accelerator.memory_bytes_per_s_measured  measured memory bandwidth
A5 C b . accelerator.flop_per_s_spec   specified dense matrix rate
A5 C b . accelerator.flop_per_s_measured          measured matrix rate
A6 Q b = accelerator.partition         partitioning (MIG, SR-IOV)
A6 Q b = accelerator.firmware          accelerator firmware
B1 V b = interconnect.device_link      links between accelerators
B1 V b = interconnect.collectives   library of collectives between ranks
B1 C b . interconnect.algorithms    algorithm and protocol of collectives
B2 V b = interconnect.node_fabric      fabric between nodes
B2 V b = interconnect.node_count       nodes
B3 Q b = interconnect.pcie_generation  PCIe generation
B3 Q b = interconnect.pcie_lanes       PCIe lanes
B4 Q b = host.cpu.model                processor
B4 Q b = host.cpu.vendor               processor vendor
B4 Q b = host.cpu.sockets              processor sockets
B4 Q b = host.cpu.cores                physical cores
B4 Q b = host.cpu.threads              logical processors
B4 Q b = host.cpu.usable_threads       logical processors this process may use
B4 Q b = host.cpu.smt                  simultaneous multithreading
B4 Q b = host.cpu.isa                  instructions for low-precision arithmetic
B4 Q b = host.cpu.l3_bytes             last-level cache
B4 Q b = host.cpu.governor             frequency governor
B4 Q b = host.cpu.max_mhz              highest processor frequency
B4 C b . host.cpu.mhz_now              processor frequency when captured
B4 Q b = host.numa_nodes               NUMA nodes
B4 Q b . host.memory_bytes             host memory
B4 C b . host.memory_available_bytes   host memory free when captured
B4 Q b . host.memory_speed             host memory speed
B4 Q b = host.storage                  storage
B4 Q b = host.cgroup.cpu_limit         processor limit of the container
B4 Q b = host.cgroup.memory_limit_bytes  memory limit of the container
B5 Q b = host.os                       operating system
B5 Q b = host.kernel                   kernel
B5 Q b = host.machine                  machine type
B5 Q b = host.container                container
B5 Q b = host.container_digest         container image digest
B5 Q b = host.virtualisation           virtualisation
C1 Q b = thermal.cooling               cooling
C1 C b . thermal.ambient_c             ambient temperature
C2 V b = power.limit_w                 power limit
C2 C b . power.default_limit_w         power limit as delivered
C2 V b = power.persistence             persistence mode
C2 V b = power.max_sm_mhz              highest accelerator clock
C2 V b = power.clock_lock              clock lock
C3 C b . power.clocks_now              clocks when captured
C3 C b . thermal.temperature_c         temperature when captured
C3 C b . thermal.throttle              throttle reasons when captured
C4 M b . power.source                  source of energy readings
C4 M b . power.boundary                boundary of energy readings
C5 M b . tenancy.co_tenants            other work on this machine
C5 C b . tenancy.foreign_cpu_ratio     processor use by others when captured
C5 C b . tenancy.load_average          load average when captured
C5 C b . tenancy.gpu_processes         other processes on the accelerator
D1 V b = software.driver.version       driver
D2 V b = software.toolkit.version      toolkit
D2 V b = software.cuda_driver.version  CUDA version of the driver
D3 V b = software.framework.name       framework
D3 V b = software.framework.version    framework version
D3 V b = software.framework.build      framework build
D3 V b = software.framework.commit     framework commit
D3 V b = software.framework.source     where the framework came from
D3 V b = software.framework.debug      debug build
D3 V b = software.framework.parallel_backend  parallel backend
D3 V b = software.framework.threads    threads
D3 V b = software.affinity             logical processors it is kept to
D3 V b = software.framework.interop_threads   threads between operators
D3 V b = software.framework.cpu_capability    processor code path
D3 V b = software.framework.deterministic     deterministic algorithms
D3 V b = software.framework.matmul_precision  matrix precision settings
D3 V b = software.framework.onednn     oneDNN
D3 V b = software.framework.mkl        MKL
D3 V b = software.framework.cudnn      cuDNN
D3 C b . software.framework.compile_available compiler usable here
D3 Q b = software.python.version       Python
D3 Q b = software.python.implementation  Python implementation
D3 Q b = software.packages             packages
D3 V b = software.environment          environment variables that change speed
D4 Q b = software.libraries            kernel libraries loaded
D5 V i = software.runtime.name         inference runtime
D5 V i = software.runtime.version      inference runtime version
D6 V b = compiler.name                 model compiler
D6 V b = compiler.version              model compiler version
D6 V b = compiler.flags                compiler flags
D6 V b = compiler.engine_hash          compiled engine hash
D6 Q b . compiler.fallbacks            operators not compiled
D7 V i = serving.batching              batching policy
D7 V i = serving.max_sequences         sequences in a batch at most
D7 V i = serving.max_batched_tokens    tokens in a batch at most
D7 V i = serving.chunked_prefill       chunked prefill
D7 V i = serving.prefix_cache          prefix cache
D7 V i = serving.adapter               adapter of the model
D7 V i = serving.speculative           speculative decoding
D7 V i = serving.graphs                captured graphs
D7 V i = serving.parallel              parallel degrees
D7 V i = serving.kv_block_tokens       tokens in a KV block
D7 V i = serving.attention             attention kernel asked for
D7 V i = serving.replicas              servers behind the balancer
D7 V i = serving.memory_share          share of a device's memory
D7 V i = serving.kv_blocks             blocks of the KV cache
D7 V i = serving.context_tokens        tokens in a request at most
D8 V t = training.strategy             distributed strategy
D8 V t = training.world_size           ranks
D8 C t . training.ranks          where each rank runs
D8 V t = training.optimizer            optimizer
D8 C t . training.method               what is trained
D8 V t = training.accumulation_steps   gradient accumulation
D8 V t = training.recompute            activation recomputation
D8 V t = training.loss_scaling         loss scaling
D8 V t = training.data_pipeline        data pipeline
D9 C b . kernels.selected              kernels seen
D9 C b . kernels.graph_breaks          graph breaks
E1 M b . model.id                      model
E1 M b . model.weights_hash            weights hash
E1 M b . model.parameters              parameters
E1 C b . model.active_parameters       active parameters
E1 M b . model.shape                   model shape
E2 M b = precision.name                precision
E2 M b = precision.weights             weights format
E2 M b = precision.activations         activations format
E2 M b = precision.accumulation        accumulation format
E2 M i = precision.kv                  KV cache format
E2 C i . precision.head                format in which a quantised folder keeps its output head
E2 M t = precision.master              master weights format
E2 M t = precision.gradients           gradients format
E2 M t = precision.optimizer           optimizer state format
E2 Q t = precision.communication       communication format
E2 M b . precision.compute             format the matrix products ran in
E3 M b = precision.detail              format detail
E4 C b . precision.support             native, emulated or storage only
E5 M b = precision.method              quantisation method
E5 M b = precision.calibration         calibration data
E6 M b . quality.metric                quality metric
E6 M b . quality.reference             quality reference
E6 M b . quality.tolerance             quality tolerance
E6 C b . quality.result                quality result
F1 M b . workload.family               training or inference
F1 M i . workload.phase                phases measured
F2 M b . workload.data_hash            data or trace hash
F2 M b . workload.input_tokens         input lengths
F2 M i . workload.output_tokens        output lengths
F3 M i . decoding.strategy             decoding strategy
F3 M i . decoding.stop                 stop rule
F3 M i . decoding.system_prompt        system prompt
F3 M i . decoding.cache_hit_ratio      share of cached input
F4 M i . arrival.process               arrival process
F4 M i . arrival.level                 rate or concurrency
F4 M b . workload.seed                 seed
G1 M i . point.target                  service target
G1 M t . point.batch                   global batch
G2 C b . point.load                    position on the load curve
G3 C b . point.batch_achieved          batch sizes achieved
H1 M b . protocol.timed                what is timed
H2 M b . protocol.warmup               warm-up rule
H2 M b . protocol.steady               steady-state test
H2 C b . protocol.steady_verdict       steady-state verdict
H2 M b . protocol.window               window
H2 M b . protocol.repeats              repeats
H2 M b . protocol.interval_method      interval method
H3 M b . protocol.timer                timer
H3 M b . protocol.synchronisation      synchronisation
H3 M b . protocol.profiler             profiler attached
H4 M b . protocol.tier                 optimisation tier
H4 M b . protocol.budget               optimisation budget
H4 C b . protocol.search_log_hash      search log hash
I1 C b . provenance.measured_by        who measured
I2 C b . provenance.date               date
I2 C b . provenance.tool_version       tool version
I2 C b . provenance.command            command
I2 C b . provenance.data_hash          raw data hash
I3 C b . provenance.evidence_class     evidence class
I4 C b . provenance.assumptions        assumptions
I4 C b . provenance.limitations        limitations
I4 C b . provenance.reproductions      independent reproductions
"""

_LENSES: dict[str, Scope] = {"b": "both", "t": "training", "i": "inference"}


def _field(line: str) -> Field:
    letter, role, lens, identity, key, label = line.split(maxsplit=5)
    return Field(key, letter, role, label, _LENSES[lens], identity == "=")  # type: ignore[arg-type]


FIELDS: dict[str, Field] = {field.id: field for field in map(_field, _TABLE.strip().splitlines())}
"""Every field by its dotted id."""


# Formats that the matrix engine of a device multiplies natively, from what the device says of itself.

_FLAGS = {
    "bf16": ("avx512_bf16", "amx_bf16"),
    "int8": ("avx512_vnni", "avx_vnni", "avx_vnni_int8", "amx_int8"),
    "fp16": ("avx512_fp16", "amx_fp16"),
    "fp8-e4m3": ("avx10_2",),
}
_CAPABILITY = {
    "fp16": (7, 0),
    "int8": (7, 2),
    "tf32": (8, 0),
    "bf16": (8, 0),
    "fp8-e4m3": (8, 9),
    "fp8-e5m2": (8, 9),
}
_GPU = re.compile(r"compute capability (\d+)\.(\d+)")


def processor_formats(flags: Mapping[str, Any]) -> dict[str, str]:
    """Format to "native" or "emulated", from instruction flags by name (torch.cpu.get_capabilities, /proc/cpuinfo).

    bf16 needs avx512_bf16 or AMX, int8 VNNI or AMX, fp16 avx512_fp16 or AMX-FP16.
    """
    support = {fmt: "native" if any(flags.get(flag) for flag in names) else "emulated" for fmt, names in _FLAGS.items()}
    return {"fp32": "native", **support, "fp8-e5m2": support["fp8-e4m3"]}


def gpu_formats(capability: tuple[int, int]) -> dict[str, str]:
    """The same of an NVIDIA GPU.

    fp16 from compute capability 7.0, tf32 and bf16 from 8.0, fp8 from 8.9, int8 from 7.2 (CUDA programming guide).
    """
    support = {fmt: "native" if capability >= needed else "emulated" for fmt, needed in _CAPABILITY.items()}
    return {"fp32": "native", **support}


def formats_of(architecture: Any) -> dict[str, str]:
    """The same from the executor field `accelerator.architecture`; empty where it says neither flags nor capability."""
    if isinstance(architecture, list) and "x86_64" in architecture:
        return processor_formats(dict.fromkeys(map(str, architecture), True))
    found = _GPU.match(architecture) if isinstance(architecture, str) else None
    return gpu_formats((int(found[1]), int(found[2]))) if found else {}
