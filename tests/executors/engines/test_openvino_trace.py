"""What OpenVINO says of a compiled model, as recorded from 2026.4.1; no engine runs."""

from __future__ import annotations

from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from material import inference, spec_of
from twinlens.errors import BadInput
from twinlens.executors.openvino.trace import Node, element_format, kv_held, nodes_of, shares, weight_formats
from twinlens.executors.refuse import refuse_unsupported

DECODE = [
    ("FullyConnected", "brgemm_avx512_bf16", 3469, "Status.EXECUTED"),
    ("FullyConnectedCompressed", "gemm_mlas_f32", 31, "Status.EXECUTED"),
    ("ScaledDotProductAttentionWithKVCache", "avx512_bf16", 200, "Status.EXECUTED"),
    ("Reshape", "unknown_bf16", 0, "Status.NOT_RUN"),
]
STATE = SimpleNamespace(shape=[2, 2, 17, 32], element_type="<Type: 'float32'>")


def profiled(rows: list[tuple[str, str, int, str]]) -> list[Any]:
    return [
        SimpleNamespace(node_type=kind, exec_type=kernel, real_time=timedelta(microseconds=us), status=status)
        for kind, kernel, us, status in rows
    ]


def compiled(**properties: str) -> Any:
    return SimpleNamespace(get_property=properties.__getitem__)


def test_the_format_of_a_product_is_that_of_its_kernel() -> None:
    nodes = nodes_of(profiled(DECODE))
    assert [node.operator for node in nodes] == [row[0] for row in DECODE[:3]], "what did not run is left out"
    assert shares(nodes) == {"bf16": pytest.approx(3469 / 3500), "fp32": pytest.approx(31 / 3500)}
    assert shares([]) == {}


def test_the_format_of_the_cache_is_read_and_not_assumed() -> None:
    request = SimpleNamespace(query_state=lambda: [SimpleNamespace(state=STATE)] * 4)
    held = compiled(KV_CACHE_PRECISION="<Type: 'uint8_t'>")
    elements = 4 * 2 * 2 * 17 * 32
    fused = {"decode": nodes_of(profiled(DECODE))}
    assert kv_held(held, request, fused)[:2] == ("int8", elements), "its own default for a model of 16 bits"
    apart = {"decode": [Node("Concat", "ref_f32", 1.0)]}
    assert kv_held(held, request, apart)[:2] == ("fp32", 4 * elements), "the setting is not in force"


def test_weights_are_as_the_compiled_graph_says() -> None:
    def node(kind: str, precision: str) -> Any:
        return SimpleNamespace(get_rt_info=lambda: {"layerType": kind, "runtimePrecision": precision})

    graph = SimpleNamespace(get_ops=lambda: [node("FullyConnected", "u4")] * 3 + [node("FullyConnected", "bf16")])
    assert weight_formats(graph) == {"int4": 0.75, "bf16": 0.25}
    graph = SimpleNamespace(get_ops=lambda: [node("Reshape", "bf16")])
    assert weight_formats(graph) == {}
    assert element_format("<Type: 'bfloat16'>") == element_format("bf16") == "bf16"


def test_a_precision_that_openvino_is_not_asked_for_is_refused() -> None:
    with pytest.raises(BadInput, match=r"openvino runs fp32, bf16, int8-weight, int4-weight, and point.precision is"):
        refuse_unsupported(spec_of(inference("openvino", point={"precision": "int8-dynamic"})))
