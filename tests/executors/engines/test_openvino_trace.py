"""What OpenVINO says of a compiled model, as recorded from 2026.4.1; no engine runs."""

from __future__ import annotations

from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from material import inference, spec_of
from twinlens.errors import BadInput
from twinlens.executors.openvino.trace import (
    Node,
    Product,
    element_format,
    kv_held,
    nodes_of,
    paged_format,
    products,
    shares,
    weights_held,
)
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
        SimpleNamespace(
            node_name=kind, node_type=kind, exec_type=kernel, real_time=timedelta(microseconds=us), status=status
        )
        for kind, kernel, us, status in rows
    ]


def compiled(**properties: str) -> Any:
    return SimpleNamespace(get_property=properties.__getitem__)


def test_the_format_of_a_product_is_that_of_its_kernel_and_counts_by_its_flop() -> None:
    """The second product has weights of 4 bits and an fp32 kernel: it was dequantised."""
    known = {"FullyConnected": Product(300.0, 6, "bf16"), "FullyConnectedCompressed": Product(100.0, 2, "int4")}
    nodes = nodes_of(profiled(DECODE), known)
    assert [node.operator for node in nodes] == [row[0] for row in DECODE[:3]], "what did not run is left out"
    assert shares(nodes) == {"bf16": 0.75, "fp32": 0.25}
    assert shares([Node("Convolution", "brgconv_avx512_1x1_I8", 1.0, 8.0)]) == {"int8": 1.0}
    assert shares([]) == {}


def test_the_format_of_the_cache_is_read_and_not_assumed() -> None:
    request = SimpleNamespace(query_state=lambda: [SimpleNamespace(state=STATE)] * 4)
    held = compiled(KV_CACHE_PRECISION="<Type: 'uint8_t'>")
    elements = 4 * 2 * 2 * 17 * 32
    fused = {"decode": nodes_of(profiled(DECODE), {})}
    assert kv_held(held, request, fused)[:2] == ("int8", elements), "its own default for a model of 16 bits"
    apart = {"decode": [Node("Concat", "ref_f32", 1.0)]}
    assert kv_held(held, request, apart)[:2] == ("fp32", 4 * elements), "the setting is not in force"


def port(sides: list[int]) -> Any:
    lengths = [SimpleNamespace(is_static=side > 0, get_length=lambda side=side: side) for side in sides]
    return SimpleNamespace(get_partial_shape=lambda: lengths)


def layer(name: str, kind: str, held: str, given: list[Any], made: list[int]) -> Any:
    return SimpleNamespace(
        get_rt_info=lambda: {"layerType": kind, "runtimePrecision": held},
        get_friendly_name=lambda: name,
        inputs=lambda: given,
        outputs=lambda: [port(made)],
    )


def test_products_and_their_weights_are_as_the_compiled_graph_says() -> None:
    linear = layer("q", "FullyConnected", "u4", [port([2, 1, 8]), port([4, 8])], [2, 1, 4])
    window = layer("c", "Convolution", "f32", [port([2, 3, 8, 8]), port([16, 3, 2, 2])], [2, 16, 4, 4])
    graph = SimpleNamespace(get_ops=lambda: [linear, window, layer("r", "Reshape", "bf16", [], [1])])
    known = products(graph)
    assert known == {"q": Product(2.0 * 2 * 4 * 8, 32, "int4"), "c": Product(2.0 * 2 * 16 * 16 * 12, 192, "fp32")}
    assert weights_held(known) == {"int4": 16, "fp32": 768}
    assert element_format("<Type: 'bfloat16'>") == element_format("bf16") == "bf16"


def test_a_paged_cache_is_in_the_format_that_its_bytes_say() -> None:
    """16 blocks of 32 tokens of the model "tiny", as openvino-genai 2026.4.1 gave them for f32, bf16 and u8."""
    elements = 16 * 32 * 2 * 2 * 2 * 32
    assert [paged_format(size, elements) for size in (524288, 262144, 163840)] == ["fp32", "bf16", "int8"]
    assert paged_format(elements // 2, elements) == "4 bits"


def test_a_precision_that_openvino_is_not_asked_for_is_refused() -> None:
    with pytest.raises(
        BadInput, match=r"openvino runs fp32, bf16, int8-weight, int4-weight, .*int8-static, and point.precision is"
    ):
        refuse_unsupported(spec_of(inference("openvino", point={"precision": "int8-dynamic"})))
