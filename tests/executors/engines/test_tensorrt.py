"""TensorRT without a GPU: the text of its EngineInspector as NVIDIA's guide prints it (ResNet-50, int8, an A100), and
the calls of our builder and runner on a module that has the names of `tensorrt` 10 and no other."""

from __future__ import annotations

import contextlib
import importlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from material import inference, quiet, spec_of
from twinlens.errors import BadInput, ExecutorFailed
from twinlens.executors.registry import capabilities, server
from twinlens.executors.tensorrt.inspect import format_said, layers, shares, weights_held

RECORDED = Path(__file__).with_name("tensorrt_layers.json").read_text()
CALLS: list[tuple[str, Any]] = []
FAULTS: set[str] = set()


def test_layers_are_as_the_engine_inspector_says() -> None:
    (found,) = layers(RECORDED)
    assert (found.operand, found.weights) == ("int8", (131072, "int8"))
    assert found.flop == 2 * 16 * 256 * 28 * 28 * 512
    assert shares([found]) == {"int8": 1.0}
    assert weights_held([found]) == {"int8": 131072}


def test_a_layer_that_fell_back_to_a_wider_format_counts_by_its_flop() -> None:
    text = json.loads(RECORDED)
    wide = json.loads(RECORDED)["Layers"][0]
    wide["Inputs"][0]["Format/Datatype"] = "Row major linear FP32"
    wide["Weights"]["Type"] = "Float"
    text["Layers"] += [wide, {"Name": "Reformatting CopyNode", "LayerType": "Reformat", "TacticName": ""}]
    found = layers(json.dumps(text))
    assert shares(found) == {"int8": 0.5, "fp32": 0.5}
    assert weights_held(found) == {"int8": 131072, "fp32": 524288}


def test_a_product_whose_weights_are_not_shown_makes_what_ran_unknown() -> None:
    """Myelin fuses the layers of a transformer and names a kernel alone."""
    text = json.loads(RECORDED)
    text["Layers"].append({"Name": "__myl_Fc", "LayerType": "gemm", "Inputs": [{"Format/Datatype": "Half"}]})
    assert shares(layers(json.dumps(text))) == {}
    with pytest.raises(ValueError, match="without detailed profiling verbosity"):
        layers('{"Layers": ["conv1", "conv2"], "Bindings": []}')


@pytest.mark.parametrize(
    ("words", "ours"),
    [
        *[("Half", "fp16"), ("BFloat16", "bf16"), ("Float", "fp32"), ("Row major linear INT8", "int8")],
        *[("N/A due to dynamic shapes", ""), ("Channel major FP16 format where C % 8 == 0", "fp16")],
    ],
)
def test_words_of_tensorrt_for_a_format(words: str, ours: str) -> None:
    assert format_said(words) == ours


def test_it_is_said_that_nobody_ran_it_and_how_to_install_it() -> None:
    assert not capabilities("tensorrt").tried
    if importlib.util.find_spec("tensorrt"):
        return
    with pytest.raises(BadInput, match="tensorrt") as refused:
        server("tensorrt").open(spec_of(inference("tensorrt", model="resnet-tiny", executor={"device": "cuda"})), quiet)
    assert refused.value.code == "TL207"


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The classifier on a `tensorrt` that records its calls; buffers are torch's on the processor."""
    torch = pytest.importorskip("torch", reason="needs the torch extra")
    CALLS.clear()
    FAULTS.clear()
    monkeypatch.setitem(sys.modules, "tensorrt", _module())
    for name in ("build", "classifier"):
        sys.modules.pop(f"twinlens.executors.tensorrt.{name}", None)
    module = importlib.import_module("twinlens.executors.tensorrt.classifier")
    monkeypatch.setattr(module, "_device_of", lambda spec: torch.device("cpu"))
    monkeypatch.setattr(module, "version", lambda name: "10.13.3.9")
    monkeypatch.setattr(
        torch.cuda,
        "Stream",
        lambda device: SimpleNamespace(cuda_stream=7, synchronize=lambda: CALLS.append(("synchronize", 7))),
    )
    monkeypatch.setattr(torch.cuda, "stream", lambda stream: contextlib.nullcontext())
    yield module
    for name in ("build", "classifier"):
        sys.modules.pop(f"twinlens.executors.tensorrt.{name}", None)


def opened(fake: Any, precision: str, tmp_path: Path) -> Any:
    spec = spec_of(inference("tensorrt", model="resnet-tiny", point={"precision": precision, "batch": 2}))
    return fake.TensorRtClassifier(tmp_path, spec, spec.model.known(), 1)


@pytest.mark.parametrize(
    ("precision", "flags"),
    [("fp32", []), ("tf32", ["TF32"]), ("fp16", ["FP16"]), ("bf16", ["BF16"]), ("int8-static", ["INT8"])],
)
def test_an_engine_is_built_with_the_flag_of_its_precision(
    fake: Any, precision: str, flags: list[str], tmp_path: Path
) -> None:
    opened(fake, precision, tmp_path)
    assert [name for what, name in CALLS if what == "set_flag"] == flags
    assert ("clear_flag", "TF32") in CALLS
    assert ("set_shape", ("pixel_values", (2, 3, 32, 32))) in CALLS


def test_a_batch_is_answered_and_what_ran_is_inspected(fake: Any, tmp_path: Path) -> None:
    engine = opened(fake, "int8-static", tmp_path)
    begin, (end,) = engine.answer(np.zeros((2, 3, 32, 32), np.float32), 0)
    assert end >= begin
    assert ("execute_async_v3", 7) in CALLS
    assert engine.log_probabilities(np.zeros((1, 3, 32, 32), np.float32)).shape == (1, 10)
    seen = engine.evidence(np.zeros((2, 3, 32, 32), np.float32))
    assert seen.ran == {"image": {"int8": 1.0}}
    assert seen.held == {"weights": {"int8": 131072}}
    assert seen.facts["kernels.selected"].value[0].startswith("sm80_xmma_fprop")
    assert "symmetric" in seen.facts["precision.calibration"].value


def test_a_row_begins_with_the_images_on_the_gpu_and_ends_before_any_copy_back_as_torchs_does(
    fake: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    engine = opened(fake, "fp16", tmp_path)
    CALLS.clear()
    copy = torch.Tensor.copy_
    monkeypatch.setattr(torch.Tensor, "copy_", lambda *parts: (CALLS.append(("copy", 0)), copy(*parts))[1])
    monkeypatch.setattr(torch.Tensor, "cpu", lambda *_: pytest.fail("a copy back to the host is in the row"))
    monkeypatch.setattr(fake.time, "monotonic_ns", lambda: CALLS.append(("clock", 0)) or 1)
    engine.answer(np.zeros((2, 3, 32, 32), np.float32), 0)
    assert [what for what, _ in CALLS] == ["copy", "synchronize", "clock", "execute_async_v3", "synchronize", "clock"]


def test_a_tensorrt_without_flags_of_precision_is_refused_by_its_version(
    fake: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from twinlens.executors.tensorrt import entry

    monkeypatch.setitem(sys.modules, "onnx", ModuleType("onnx"))  # which the export needs, and not this refusal
    monkeypatch.setattr(sys.modules["tensorrt"], "__version__", "11.4.0.5")
    with pytest.raises(BadInput, match=r"tensorrt is 11\.4\.0\.5, .* are those of 10: pip install .*<11") as refused:
        entry._runtime(spec_of(inference("tensorrt", model="resnet-tiny")))
    assert refused.value.code == "TL207"
    monkeypatch.setattr(sys.modules["tensorrt"], "__version__", "10.13.3.9")
    assert entry._runtime(spec_of(inference("tensorrt", model="resnet-tiny"))).name == "tensorrt"


@pytest.mark.parametrize(
    ("fault", "said"), [("parse", "cannot read the ONNX file: no such operator"), ("build", "cannot build an engine")]
)
def test_what_tensorrt_refuses_is_one_sentence(fake: Any, fault: str, said: str, tmp_path: Path) -> None:
    FAULTS.add(fault)
    with pytest.raises(ExecutorFailed, match=said):
        opened(fake, "fp16", tmp_path)


class _Config:
    profiling_verbosity = None

    def set_flag(self, flag: str) -> None:
        CALLS.append(("set_flag", flag))

    def clear_flag(self, flag: str) -> None:
        CALLS.append(("clear_flag", flag))

    def add_optimization_profile(self, profile: Any) -> int:
        return 0


class _Builder:
    def __init__(self, logger: Any) -> None: ...

    def create_network(self, flags: int) -> str:
        return "network"

    def create_builder_config(self) -> _Config:
        return _Config()

    def create_optimization_profile(self) -> Any:
        return SimpleNamespace(set_shape=lambda name, least, best, most: CALLS.append(("set_shape", (name, best))))

    def build_serialized_network(self, network: Any, config: _Config) -> bytes | None:
        assert config.profiling_verbosity == "detailed"
        return None if "build" in FAULTS else b"plan"


class _Parser:
    num_errors = 1

    def __init__(self, network: Any, logger: Any) -> None: ...

    def parse_from_file(self, path: str) -> bool:
        return "parse" not in FAULTS

    def get_error(self, index: int) -> Any:
        return SimpleNamespace(desc=lambda: "no such operator")


class _Context:
    profiler: Any = None

    def set_input_shape(self, name: str, shape: tuple[int, ...]) -> bool:
        return True

    def get_tensor_shape(self, name: str) -> tuple[int, ...]:
        return (2, 10)

    def set_tensor_address(self, name: str, address: int) -> bool:
        return address > 0

    def execute_async_v3(self, stream: int) -> bool:
        CALLS.append(("execute_async_v3", stream))
        if self.profiler:
            self.profiler.report_layer_time(json.loads(RECORDED)["Layers"][0]["Name"], 0.5)
        return True


class _Engine:
    def create_execution_context(self) -> _Context:
        return _Context()

    def create_engine_inspector(self) -> Any:
        return SimpleNamespace(execution_context=None, get_engine_information=lambda kind: RECORDED)


class _Profiler:
    def __init__(self) -> None: ...


def _module() -> ModuleType:
    made = ModuleType("tensorrt")
    made.__dict__.update(
        __version__="10.13.3.9",
        Logger=type("Logger", (), {"WARNING": 2, "__init__": lambda self, level: None}),
        Builder=_Builder,
        OnnxParser=_Parser,
        Runtime=lambda logger: SimpleNamespace(deserialize_cuda_engine=lambda plan: _Engine()),
        IProfiler=_Profiler,
        BuilderFlag=SimpleNamespace(TF32="TF32", FP16="FP16", BF16="BF16", INT8="INT8"),
        ProfilingVerbosity=SimpleNamespace(DETAILED="detailed"),
        LayerInformationFormat=SimpleNamespace(JSON="json"),
    )
    return made
