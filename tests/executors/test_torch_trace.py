"""What a GPU's profiler says, read rightly: events of torch's own type, as a CUDA trace links them."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="needs the torch extra")
from torch.autograd import DeviceType  # noqa: E402
from torch.autograd.profiler_util import EventList, FunctionEvent  # noqa: E402

from twinlens.executors.torch.evidence.check import check_phases, check_precision  # noqa: E402
from twinlens.executors.torch.evidence.trace import (  # noqa: E402
    Kernel,
    compute_formats,
    kernel_format,
    kernels_of,
    longest,
    without_head,
    without_width,
)

pytestmark = pytest.mark.torch
NATIVE = dict.fromkeys(("fp32", "tf32", "bf16", "fp8-e4m3"), "native")


class Trace:
    """Events as torch builds them from a CUDA trace: an operator, its launch call, and the kernel, each once."""

    def __init__(self) -> None:
        self.events: list[Any] = []
        self._at_us = 0.0

    def add(self, name: str, cpu_us: float, device: bool = False, **parts: Any) -> Any:
        event = FunctionEvent(
            id=len(self.events) + 1,
            name=name,
            thread=1 if not device else 7,
            start_us=self._at_us,
            end_us=self._at_us + cpu_us,
            use_device="cuda",
            device_type=DeviceType.CUDA if device else DeviceType.CPU,
            **parts,
        )
        self.events.append(event)
        return event

    def product(self, name: str, kernel: str, us: float, types: list[str], shapes: list[list[int]]) -> None:
        """`aten::linear` above the operator, the launch inside it, and the kernel on the device."""
        outer = self.add("aten::linear", 40.0, input_dtypes=types, input_shapes=shapes)
        inner = self.add(name, 30.0, input_dtypes=types, input_shapes=shapes)
        launch = self.add("cudaLaunchKernel", 8.0)
        outer.cpu_children, inner.cpu_children = [inner], [launch]
        inner.append_kernel(kernel, 0, us)
        self._at_us += 50.0
        self.add(kernel, us, device=True)

    def wait(self, us: float) -> None:
        self.add("cudaDeviceSynchronize", us)

    def kernels(self) -> tuple[Kernel, ...]:
        return kernels_of(EventList(self.events, use_device="cuda"), on_gpu=True)


def half(width: int = 64) -> Trace:
    trace = Trace()
    for _ in range(4):
        shapes = [[8, width], [width, width]]
        trace.product("aten::mm", "nvjet_tst_128x256_64x4_1x2_h_bz_NNT", 5.0, ["c10::BFloat16"] * 2, shapes)
    trace.wait(5000.0)
    return trace


def test_each_kernel_counts_once_and_waiting_counts_nothing() -> None:
    kernels = half().kernels()
    timed = {kernel.name: kernel.self_time_s for kernel in kernels if kernel.self_time_s}
    assert timed == {"aten::mm": pytest.approx(20e-6), "nvjet_tst_128x256_64x4_1x2_h_bz_NNT": pytest.approx(20e-6)}
    assert compute_formats(kernels) == {"bf16": 1.0}


def test_selected_kernels_are_the_devices_and_no_runtime_calls() -> None:
    assert longest(half().kernels()) == ["nvjet_tst_128x256_64x4_1x2_h_bz_NNT"]


def test_without_device_events_formats_are_unknown_and_never_the_processors_time() -> None:
    trace = Trace()
    trace.add("aten::mm", 30.0, input_dtypes=["float", "float"], input_shapes=[[8, 8], [8, 8]])
    trace.wait(900.0)
    kernels = trace.kernels()
    assert compute_formats(kernels) == {}
    (check,) = check_precision({"compute": "fp32"}, {}, kernels, hardware=NATIVE)
    assert (check.verdict, check.observed) == ("unknown", None)
    assert "no device events" in check.evidence


def test_fp32_operands_are_what_the_arithmetic_says_and_not_what_a_name_says() -> None:
    trace = Trace()
    shapes = [[512, 512], [512, 512]]
    trace.product("aten::mm", "ampere_sgemm_128x64_tn", 1e6, ["float", "float"], shapes)
    trace.product("aten::mm", "sm80_xmma_gemm_f32f32_tf32f32_f32", 1.0, ["float", "float"], shapes)
    kernels = trace.kernels()
    assert compute_formats(kernels, {"fp32": 1.0}) == {"fp32": 1.0}, "one short tf32 kernel is not the run"
    assert compute_formats(kernels, {"tf32": 1.0}) == {"tf32": 1.0}
    for declared, witness, verdict in (
        ("tf32", {"tf32": 1.0}, "agrees"),
        ("fp32", {"tf32": 1.0}, "differs"),
        ("tf32", {"fp32": 1.0}, "differs"),
    ):
        asked = {"activations": "fp32", "compute": declared}
        checks = check_precision(asked, {}, kernels, hardware=NATIVE, fp32_is=witness)
        assert [check.verdict for check in checks] == ["agrees", verdict]


def test_a_backward_product_of_e5m2_by_e4m3_is_fp8() -> None:
    trace = Trace()
    for types in (["c10::Float8_e4m3fn"] * 2, ["c10::Float8_e5m2", "c10::Float8_e4m3fn"]):
        trace.product("aten::_scaled_mm", "nvjet_qqtst_128x128_128x6", 10.0, types, [[32, 64], [64, 64]])
    python = trace.add("aten::mm", 4000.0, input_dtypes=["float", "float"], input_shapes=[[32, 64], [64, 64]])
    assert not python.kernels, "torchao's subclass dispatches in Python: time of the processor, no kernel of its own"
    assert compute_formats(trace.kernels()) == {"fp8-e4m3": 1.0}


def test_an_output_head_that_is_left_wider_on_purpose_does_not_speak() -> None:
    trace = Trace()
    trace.product("aten::_scaled_mm", "nvjet_qqtst", 10.0, ["c10::Float8_e4m3fn"] * 2, [[32, 64], [64, 64]])
    trace.product("aten::mm", "nvjet_tst_a", 30.0, ["c10::BFloat16"] * 2, [[32, 64], [64, 1000]])
    kernels = trace.kernels()
    assert compute_formats(kernels)["bf16"] == pytest.approx(0.75)
    assert compute_formats(without_width(kernels, 1000)) == {"fp8-e4m3": 1.0}


def test_a_captured_graph_has_no_operators_and_its_kernels_names_speak() -> None:
    trace = Trace()
    trace.add("cudaGraphLaunch", 12.0)
    trace.add("triton_poi_fused_add_mul_0", 4.0, device=True)
    trace.add("void gemv2T_kernel_val<int, int, __nv_bfloat16, __nv_bfloat16, float>", 30.0, device=True)
    assert compute_formats(trace.kernels()) == {"bf16": 1.0}


def test_an_unknown_fp8_format_keeps_its_place_and_agrees_with_nothing() -> None:
    trace = Trace()
    types = ["c10::Float8_e4m3fnuz", "c10::Float8_e4m3fnuz"]
    trace.product("aten::_scaled_mm", "Cijk_Ailk", 10.0, types, [[16, 16], [16, 16]])
    (check,) = check_precision({"compute": "fp8-e4m3"}, {}, trace.kernels(), hardware=NATIVE)
    assert check.verdict == "differs"


@pytest.mark.parametrize(
    ("name", "fmt"),
    [
        ("cutlass_80_tensorop_s1688gemm_128x256_16x3_tn_align4", "tf32"),
        ("void cutlass::Kernel2<cutlass_80_tensorop_s1688gemm_256x128_16x3_tn_align4>", "tf32"),
        ("sm90_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize64x64x32", "tf32"),
        ("turing_fp16_s1688gemm_fp16_128x128_ldg8_f2f_tn", "fp16"),
        ("ampere_bf16_s16816gemm_bf16_128x64_ldg8_f2f_stages_64x4_tn", "bf16"),
        ("ampere_fp16_s16816gemm_fp16_64x64_sliced1x2_ldg8_f2f_stages_64x5_tn", "fp16"),
        ("sm80_xmma_gemm_f16f16_f16f32_f32_tn_n_tilesize128x128x32", "fp16"),
        ("ampere_sgemm_128x64_tn", "fp32"),
        ("cutlass_80_simt_sgemm_128x256_8x4_tn_align1", "fp32"),
        ("void gemvx::kernel<int, int, __nv_bfloat16, float, float, float, false>", "bf16"),
        ("void gemv2T_kernel_val<int, int, float, float, float, float, 128, 16>", "fp32"),
        ("void splitKreduce_kernel<32, 16, int, float, float, float, float>", None),
        ("void at::native::elementwise_kernel<128, 2, float>", None),
        ("nvjet_tst_128x256_64x4_1x2_h_bz_coopA_NNT", "bf16"),
        ("nvjet_sm90_tst_192x8_64x8_2x1_v_bz_TNT", "bf16"),
        ("nvjet_sm100_tst_64x8_64x16_2x4_h_bz_splitK_TNT", "bf16"),
        ("nvjet_sm103_tss_128x256_64x6_2x1_2cta_v_bz_NNT", "bf16"),
        ("nvjet_sm120_tst_mma_64x64x128_3_32x32x128_tmaAB_alignCD4_bz_TNNN", "bf16"),
        ("nvjet_hsh_256x144_64x4_1x2_h_bz_coopA_TNT", "fp16"),
        ("nvjet_sm90_hss_320x128_64x3_1x2_h_bz_coopB_NNT", "fp16"),
        ("nvjet_sss_tf32_128x256_TNT", "tf32"),
        ("nvjet_qqtst_112x128_128x7_2x1_v_bz_coopA_algo2_TNN", "fp8-e4m3"),
        ("nvjet_sm100_qqtst_128x256_128x6_2x1_2cta_v_bz_bias_TNT", "fp8-e4m3"),
        ("nvjet_qqhsh_128x128_128x6_2x1_v_bz_TNN", "fp8-e4m3"),
        ("nvjet_qqtst_128x256_128x6_2x2_2cta_h_bz_Avec32UE8M0_Bvec32UE8M0_TNT", "mxfp8"),
        ("nvjet_sm103_oohsh_128x128_256x7_2x2_2cta_v_bz_Avec16UE4M3_Bvec16UE4M3_TNT", "nvfp4"),
        ("nvjet_sm100_ootst_128x128_256x7_4x1_2cta_v_bx_Avec16UE4M3_Bvec16UE4M3_TNT", "nvfp4"),
        ("nvjet_xxzzz_128x128_TNT", None),
        ("cutlass3x_sm100_bstensorop_s256x192x64gemm_block_scaled_ue4m3xf4_ue4m3xf4_f32_f16_f16_256x192x256", "nvfp4"),
        ("cutlass3x_sm100_bstensorop_s256x128x32gemm_block_scaled_ue8m0xe4m3_ue8m0xe4m3_f32_void_bf16", "mxfp8"),
        ("bmm_E2m1_E2m1E2m1_Fp32_t128x64x256u2_s6_et64x64_m128x64x64", "fp4"),
    ],
)
def test_a_kernels_name_gives_the_format_of_its_operands(name: str, fmt: str | None) -> None:
    assert kernel_format(name) == fmt


def decode_in(layers: str, head: str) -> tuple[Kernel, ...]:
    """A decode step as a captured graph: 112 products of layers, and one of an output head of 30 % of the time."""
    trace = Trace()
    trace.add("cudaGraphLaunch", 12.0)
    for _ in range(112):
        trace.add(layers, 0.625, device=True)
    trace.add(head, 30.0, device=True)
    return trace.kernels()


def test_a_compiled_fp8_decode_with_a_tied_head_is_fp8_by_its_kernels_names() -> None:
    narrow, wide = "nvjet_sm100_qqtst_128x256_128x6_2x1_2cta_v_bz_TNT", "nvjet_sm100_tst_64x8_64x16_4x1_v_bz_TNT"
    kernels = decode_in(narrow, wide)
    assert compute_formats(kernels) == {"fp8-e4m3": pytest.approx(0.7), "bf16": pytest.approx(0.3)}
    assert compute_formats(without_head(kernels, 1000, "bf16")) == {"fp8-e4m3": 1.0}
    assert compute_formats(without_head(decode_in(wide, wide), 1000, "bf16")) == {"bf16": 1.0}, "no fp8 anywhere"
    (check,) = check_precision({"compute": "fp8-e4m3"}, {}, without_head(kernels, 1000, "bf16"), hardware=NATIVE)
    assert check.verdict == "agrees"


def test_a_prefill_in_fp32_under_a_decode_in_bf16_differs_and_says_where() -> None:
    phases = {
        "prefill": (Kernel("aten::mm", 1, 1.0, ("fp32", "fp32")),),
        "decode": (Kernel("aten::mm", 1, 1.0, ("bf16", "bf16")),),
    }
    (compute,) = check_phases({"compute": "bf16"}, {}, phases)
    assert (compute.verdict, compute.observed) == ("differs", "fp32")
    assert compute.evidence.startswith("prefill: matrix-product time: fp32 100%; decode: ")
    (other,) = check_phases({"compute": "bf16"}, {}, {"prefill": phases["decode"], "decode": phases["decode"]})
    assert other.verdict == "agrees"
    (blind,) = check_phases({"compute": "bf16"}, {}, {"prefill": (), "decode": phases["decode"]})
    assert blind.verdict == "unknown", "agreeing wants every phase to have been seen"
