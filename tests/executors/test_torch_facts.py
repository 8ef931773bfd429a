"""What torch says it holds and runs, on real modules and the real profiler."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="needs the torch extra")
from torch import nn  # noqa: E402

from twinlens.executors.in_process.weights import weights_hash  # noqa: E402
from twinlens.executors.torch.evidence.check import check_precision  # noqa: E402
from twinlens.executors.torch.evidence.facts import framework_facts  # noqa: E402
from twinlens.executors.torch.evidence.memory import resident_formats  # noqa: E402
from twinlens.executors.torch.evidence.trace import Kernel, compute_formats, kernels_seen  # noqa: E402
from twinlens.executors.torch.model.build import drawn_by  # noqa: E402
from twinlens.record.executor.field import formats_of, gpu_formats, processor_formats  # noqa: E402
from twinlens.record.executor.record import ExecutorRecord  # noqa: E402
from twinlens.spec.model.reference import load_model  # noqa: E402
from twinlens.spec.precision import precision  # noqa: E402

pytestmark = pytest.mark.torch
ZEN5 = {"fp32": "native", "bf16": "native", "int8": "native", "fp16": "emulated"}


class PackedLinear(nn.Module):
    stored_format = "int8"

    def __init__(self, out_features: int, in_features: int, dtype: torch.dtype = torch.int8) -> None:
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        self.register_buffer("weight", torch.ones(out_features, in_features, dtype=dtype))
        self.register_buffer("scale", torch.ones(out_features, dtype=torch.bfloat16))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch._weight_int8pack_mm(x, self.weight, self.scale)


def model(dtype: torch.dtype = torch.float32) -> nn.Module:
    return nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.Linear(128, 64)).to(dtype)


def checks(regime: str, module: nn.Module, x: torch.Tensor) -> dict[str, str]:
    declared = {**precision(regime).classes("inference"), "compute": precision(regime).compute}
    with torch.inference_mode():
        found = check_precision(declared, resident_formats(module), kernels_seen(lambda: module(x)), hardware=ZEN5)
    return {check.tensor_class: check.verdict for check in found}


def test_framework_facts_are_all_known_fields_and_name_this_torch() -> None:
    record = ExecutorRecord(framework_facts())
    assert record.value("software.framework.version") == torch.__version__
    assert record.value("software.framework.threads") == torch.get_num_threads()
    assert record.value("software.framework.cpu_capability") == torch.backends.cpu.get_cpu_capability()


def test_a_lie_is_caught_when_bf16_is_declared_and_the_model_is_fp32() -> None:
    verdicts = checks("bf16", model(), torch.ones(4, 64))
    assert verdicts["weights"] == verdicts["activations"] == verdicts["compute"] == "differs"


def test_the_truth_is_confirmed_in_fp32_and_bf16() -> None:
    assert checks("fp32", model(), torch.ones(4, 64))["compute"] == "agrees"
    verdicts = checks("bf16", model(torch.bfloat16), torch.ones(4, 64, dtype=torch.bfloat16))
    assert verdicts["weights"] == verdicts["compute"] == "agrees"


def test_what_happens_inside_a_kernel_is_unknown_and_never_agrees() -> None:
    verdicts = checks("fp32", model(), torch.ones(4, 64))
    assert verdicts["accumulation"] == "unknown"
    assert verdicts["kv"] == "unknown"  # none was held


def test_autocast_is_seen_below_the_cast() -> None:
    module = model()
    with torch.autocast("cpu", torch.bfloat16):
        kernels = kernels_seen(lambda: module(torch.ones(4, 64)).sum())
    assert compute_formats(kernels) == {"bf16": pytest.approx(1.0)}


def test_a_training_step_under_autocast_holds_fp32_masters_and_computes_in_bf16() -> None:
    module = model()
    optimizer = torch.optim.AdamW(module.parameters())

    def step() -> None:
        with torch.autocast("cpu", torch.bfloat16):
            loss = module(torch.ones(4, 64)).sum()
        loss.backward()
        optimizer.step()

    kernels = kernels_seen(step)
    declared = {**precision("bf16").classes("training"), "compute": "bf16"}
    found = check_precision(declared, resident_formats(module, optimizer), kernels, hardware=ZEN5)
    verdicts = {check.tensor_class: check.verdict for check in found}
    assert verdicts.pop("accumulation") == "unknown"
    assert set(verdicts.values()) == {"agrees"}


def test_bytes_held_are_counted_by_hand() -> None:
    module = model()
    optimizer = torch.optim.AdamW(module.parameters())
    module(torch.ones(1, 64)).sum().backward()
    optimizer.step()
    weights = 2 * 64 * 128 * 4
    parameters = weights + (64 + 128) * 4
    held = resident_formats(module, optimizer, [torch.zeros(3, 5, dtype=torch.float16)])
    assert held == {
        "weights": {"fp32": weights},
        "master": {"fp32": parameters},
        "gradients": {"fp32": parameters},
        "optimizer": {"fp32": 2 * parameters},
        "kv": {"fp16": 30},
    }


def test_an_embedding_is_no_matrix_weight_unless_it_is_tied_to_one() -> None:
    head = nn.Linear(8, 10, bias=False)
    embedding = nn.Embedding(10, 8)
    assert resident_formats(embedding) == {}
    embedding.weight = head.weight
    assert resident_formats(nn.ModuleList([embedding, head]))["weights"] == {"fp32": 320}


def test_dynamic_int8_is_seen_in_memory_and_in_the_kernel() -> None:
    with pytest.warns():  # torch announces the end of this module; the records must still be right until then
        module = torch.ao.quantization.quantize_dynamic(model(), {nn.Linear}, torch.qint8)
    verdicts = checks("int8-dynamic", module, torch.ones(4, 64))
    assert verdicts["weights"] == verdicts["compute"] == verdicts["activations"] == "agrees"


def test_weight_only_int8_stores_int8_and_computes_bf16() -> None:
    module = PackedLinear(64, 64)
    x = torch.ones(1, 64, dtype=torch.bfloat16)
    regime = precision("int8-weight")
    declared = {**regime.classes("inference"), "compute": regime.compute}
    with torch.inference_mode():
        kernels = kernels_seen(lambda: module(x))
    found = {c.tensor_class: c for c in check_precision(declared, resident_formats(module), kernels, hardware=ZEN5)}
    assert (found["weights"].verdict, found["weights"].support) == ("agrees", "storage-only")
    assert (found["compute"].observed, found["compute"].support) == ("bf16", "native")


def test_a_module_that_says_int8_but_stores_int32_is_not_believed() -> None:
    assert resident_formats(PackedLinear(8, 8, torch.int32))["weights"] == {"int32": 256}


def test_four_bits_packed_in_bytes_are_int4() -> None:
    module = PackedLinear(16, 32)
    module.stored_format = "int4"
    module.weight = torch.zeros(16, 16, dtype=torch.uint8)
    assert resident_formats(module)["weights"] == {"int4": 256}


def test_a_model_that_keeps_a_third_high_is_mixed_and_differs() -> None:
    module = nn.ModuleList([PackedLinear(64, 64), nn.Linear(64, 32, bias=False)])
    (check,) = check_precision({"weights": "int8"}, resident_formats(module), (), hardware=ZEN5)
    assert (check.verdict, check.observed) == ("differs", "int8, fp32")


def test_no_product_seen_is_unknown() -> None:
    (check,) = check_precision({"compute": "bf16"}, {}, kernels_seen(lambda: torch.ones(3).add(1)), hardware=ZEN5)
    assert (check.verdict, check.observed) == ("unknown", None)


def test_attention_speaks_only_where_no_weight_was_multiplied() -> None:
    attention = Kernel("aten::bmm", 1, 9.0, ("fp32", "fp32"))
    linear = Kernel("quantized::linear_dynamic", 1, 1.0, ("fp32",))
    assert next(iter(compute_formats((attention, linear)))) == "int8"
    assert next(iter(compute_formats((attention,)))) == "fp32"


@pytest.mark.parametrize(
    ("capability", "native"),
    [
        ((7, 0), {"fp32", "fp16"}),
        ((8, 0), {"fp32", "fp16", "int8", "tf32", "bf16"}),
        ((9, 0), {"fp32", "fp16", "int8", "tf32", "bf16", "fp8-e4m3", "fp8-e5m2"}),
    ],
)
def test_gpu_formats_follow_compute_capability(capability: tuple[int, int], native: set[str]) -> None:
    assert {fmt for fmt, kind in gpu_formats(capability).items() if kind == "native"} == native


def test_processor_formats_follow_instructions() -> None:
    assert processor_formats({})["bf16"] == "emulated"
    formats = processor_formats({"avx512_bf16": True, "avx512_vnni": True, "avx512_fp16": False})
    assert (formats["bf16"], formats["int8"], formats["fp16"]) == ("native", "native", "emulated")


def test_random_weights_are_known_by_what_drew_them_too() -> None:
    """A GPU draws other numbers from the same seed: such weights were called equal."""
    ref = load_model("tiny")
    cuda, cpu = torch.device("cuda", 1), torch.device("cpu")
    drawn = [drawn_by(cpu), drawn_by(cuda)]
    hashes = [weights_hash(ref, 1, by) for by in drawn]
    assert len(set(hashes)) == 2
    assert weights_hash(ref, 1, drawn_by(torch.device("cuda", 0))) == hashes[1], (
        "which board it was makes no difference"
    )
    assert weights_hash(ref, 2, drawn[0]) != hashes[0]


def test_formats_follow_from_the_recorded_architecture() -> None:
    assert formats_of(["x86_64", "avx2", "avx512_vnni"])["int8"] == "native"
    assert formats_of(["x86_64", "avx2"])["int8"] == "emulated"
    assert formats_of("compute capability 8.9")["fp8-e4m3"] == "native"
    assert formats_of("compute capability 8.0")["fp8-e4m3"] == "emulated"
    assert formats_of(["aarch64", "sve"]) == formats_of(None) == formats_of("gfx942") == {}
