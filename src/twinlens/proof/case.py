"""The cases: for each a real program and the resource it saturates; `reporting/wording/self_test.py` says why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from twinlens.spec.precision import AS_SERVED

Program = Literal["spec", "slow-input", "two-processes", "server"]


@dataclass(frozen=True, slots=True)
class Pace:
    """How the small server works. `slots`: sequences it runs at once; `kv_tokens`: those its cache holds; `tokenise_s`:
    processor time before a request is queued; `prefill_s`, `step_s`: of the engine, which sleeps so long."""

    slots: int = 8
    kv_tokens: int = 100_000
    tokenise_s: float = 0.0
    prefill_s: float = 0.004
    step_s: float = 0.008


@dataclass(frozen=True, slots=True)
class Case:
    """`expected`: the verdict, which is the name of the case too.

    `program`: "spec" is measured as any study; "slow-input" and "two-processes" put a trainer of ours in place of the
    embedded one, "server" starts a small server at `pace`. `config`: of the model, where it is none of the catalogue.
    """

    expected: str
    program: Program
    workload: Mapping[str, Any]
    point: Mapping[str, Any] = field(default_factory=dict)
    protocol: Mapping[str, Any] = field(default_factory=dict)
    config: Mapping[str, Any] | None = None
    pace: Pace = Pace()


def _llama(hidden: int, inner: int, layers: int) -> dict[str, Any]:
    """Few layers of large products: as little as possible happens between them."""
    return {
        "model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 512, "hidden_size": hidden,
        "intermediate_size": inner, "num_hidden_layers": layers, "num_attention_heads": 8, "num_key_value_heads": 8,
        "hidden_act": "silu", "max_position_embeddings": 512, "rms_norm_eps": 1e-5, "tie_word_embeddings": False,
        "attention_bias": False, "mlp_bias": False, "bos_token_id": 1, "eos_token_id": 2, "dtype": "float32",
    }  # fmt: skip


def _tokens(count: int) -> dict[str, Any]:
    return {"kind": "fixed", "value": count}


def _served(output: int, **more: Any) -> dict[str, Any]:
    lengths = {"input_tokens": _tokens(32), "output_tokens": _tokens(output)}
    return {"kind": "inference", "model": "small", **lengths, "arrival": {"kind": "closed"}} | more


_TRAINED = {"kind": "training", "global_batch": 2, "seq_len": 128}
_DECODED = {"kind": "inference", "input_tokens": _tokens(8), "fidelity_prompts": 0}
_SHORT = {"duration_s": 3.0, "steady_s": 1.0, "min_rows": 8}
_SERVED = {"duration_s": 6.0, "steady_s": 2.0, "min_rows": 20, "ceilings": False}
_NO_ROOF = _SHORT | {"ceilings": False}
_AS_SERVED = {"precision": AS_SERVED.name}

CASES = (
    Case("compute-bound", "spec", _TRAINED, protocol=_SHORT, config=_llama(768, 3072, 2)),
    Case(
        "bandwidth-bound", "spec", _DECODED | {"output_tokens": _tokens(16)},
        protocol=_SHORT | {"min_rows": 3}, config=_llama(2048, 8192, 2),
    ),
    Case("below-ceilings", "spec", _DECODED | {"model": "tiny", "output_tokens": _tokens(16)}, protocol=_SHORT),
    Case("input-bound", "slow-input", _TRAINED | {"model": "tiny", "seq_len": 32}, protocol=_NO_ROOF),
    Case("interconnect-bound", "two-processes", _TRAINED | {"model": "tiny", "seq_len": 1}, protocol=_NO_ROOF),
    Case(
        "host-bound", "server", _served(8), _AS_SERVED | {"concurrency": 1}, _SERVED,
        pace=Pace(tokenise_s=0.06, step_s=0.004),
    ),
    Case("queue-bound", "server", _served(12), _AS_SERVED | {"concurrency": 8}, _SERVED, pace=Pace(slots=2)),
    Case("capacity-bound", "server", _served(16), _AS_SERVED | {"concurrency": 8}, _SERVED, pace=Pace(kv_tokens=112)),
)  # fmt: skip
"""In the order in which they are run, the longest first."""


def spec_data(case: Case, model: str | None, url: str, threads: int) -> dict[str, Any]:
    """The spec of a case. `model`: the path of its config, where it has one; `url`: of its server."""
    workload = dict(case.workload) | ({"model": model} if model else {})
    torch = {"kind": "torch", "device": "cpu", "threads": threads, "options": {"freed_memory": "kept"}}
    attached = {"kind": "openai-http", "options": {"url": url}}
    return {
        "schema": 1,
        "name": f"self-test-{case.expected}",
        "executor": attached if case.program == "server" else torch,
        "workload": workload,
        "point": dict(case.point),
        "protocol": {"repeats": 1, "extend": 0, "retakes": 0} | dict(case.protocol),
    }
