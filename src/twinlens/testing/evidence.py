"""Assertions on evidence: weights, products and fidelity are those of the model, and not what an executor made up."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from twinlens.executors.in_process.torch_work import Linear
from twinlens.record.codec import decode, encode
from twinlens.record.executor.facts import Facts
from twinlens.spec.model.shape import DecoderShape, ModelShape
from twinlens.spec.precision import BITS
from twinlens.spec.study import RunSpec
from twinlens.spec.workload.workload import InferenceWorkload
from twinlens.stats.metrics.fidelity import fidelity
from twinlens.theory.flop import parameters

_LEAST, _MOST = 0.5, 3.0
"""Of the weights by theory: an embedding that is left out or kept twice, scales and padding lie between."""
_PRODUCTS = 0.9
_SAME_TOP1, _SAME_KL = 0.99, 1e-3
"""Of fp32 against fp32: other orders of summation change no more than that."""


def assert_weights(facts: Facts, spec: RunSpec) -> None:
    """The bytes of weights that an executor says it holds are those of the model at the run's precision."""
    held, shape = facts.memory.get("weights_bytes"), spec.model.shape
    if held is None or held.value is None or shape is None:
        return
    each = spec.precision.weight_bits("inference", 4096) / 8
    expected = parameters(shape).total * each
    said = f"{held.value:,.0f} bytes of weights, and {parameters(shape).total:,} parameters of {each:g} bytes"
    assert _LEAST * expected <= held.value <= _MOST * max(expected, parameters(shape).total * 4), f"it holds {said}"


def assert_products(linears: Sequence[Linear], shape: ModelShape, export: Path) -> None:
    """Products with weights, (out, in, stored format) each, are those of the model, and their bytes are in its export.

    Their FLOP are 2 per weight and token: an empty list has no ceiling and no share of one.
    """
    assert linears, "Runtime.linears gives no product with weights: nothing can be counted or held against a ceiling"
    elements = sum(out * width for out, width, _ in linears)
    if isinstance(shape, DecoderShape):
        inside = parameters(shape).active - 2 * shape.vocab * shape.hidden
        assert elements >= _PRODUCTS * inside, f"{elements:,} weights in products, and the layers have {inside:,}"
    stored = sum(out * width * BITS.get(kind, 32) for out, width, kind in linears) / 8
    files = [export] if export.is_file() else [path for path in export.rglob("*") if path.is_file()]
    size = sum(path.stat().st_size for path in files)
    assert stored <= size, f"products of {stored:,.0f} bytes, and an export of {size:,}"


def assert_fidelity(facts: Facts, spec: RunSpec) -> None:
    """Every prompt of the sample was compared token by token with fp32; at fp32 both are the same."""
    workload = spec.workload
    assert isinstance(workload, InferenceWorkload)
    assert len(facts.fidelity) == workload.fidelity_prompts, "one row of fidelity for each prompt of the sample"
    length = 1 if workload.data.kind == "images" else min(128, workload.input_tokens.max)
    assert all(row.tokens == length for row in facts.fidelity), f"each compares {length} positions, teacher-forced"
    if spec.point.precision == "fp32":
        compared = fidelity(facts.fidelity)
        top1, distance = compared["top1_agreement"].value, compared["kl_nats"].value
        assert top1 is not None
        assert distance is not None
        assert top1 >= _SAME_TOP1, f"at fp32 it agrees with fp32 on {top1:.1%} of the tokens"
        assert distance <= _SAME_KL, f"at fp32 it is {distance:.2g} nats from fp32"


def assert_says_who_it_is(facts: Facts) -> None:
    """It names itself or its device, what it does not know has a reason, and all of it survives run.json."""
    known = facts.executor.facts
    assert {"software.framework.name", "software.runtime.name", "accelerator.product"} & set(known), (
        "it says nothing of itself"
    )
    for field, fact in known.items():
        assert fact.value is not None or fact.reason, f"{field} has neither a value nor a reason"
    assert decode(Facts, json.loads(json.dumps(encode(facts), allow_nan=False))) == facts
