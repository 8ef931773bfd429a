"""A launched server takes any model folder: theory may be silent, and quantised weights keep their name."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

import pytest

from material import inference, spec_of, study_of, training
from twinlens.api.measuring.studies import check
from twinlens.errors import BadInput
from twinlens.executors.launch.model_folder import ModelFolder, servable
from twinlens.executors.launch.observe import _online, _silence, _stored, checks
from twinlens.executors.launch.options import settings_of, with_endpoint
from twinlens.executors.launch.ready import pages
from twinlens.executors.launch.recipe import LaunchConfig
from twinlens.executors.launch.runtime.vllm import RECIPE, _with_kernel
from twinlens.executors.launch.server import LaunchedServer, order_of
from twinlens.executors.settings_text import formats, quantisation
from twinlens.measurement.facts.predicted_work import theory_of
from twinlens.measurement.facts.provenance import provenance
from twinlens.measurement.preflight.memory import needed
from twinlens.record.executor.facts import Facts
from twinlens.record.executor.record import ExecutorRecord, declared
from twinlens.reporting.wording.finding import sentence_of
from twinlens.spec.device import load_device
from twinlens.spec.model.any_model import any_model
from twinlens.spec.model.quantised import contradicts, stored_precision
from twinlens.spec.model.reference import load_model
from twinlens.spec.model.shape import DecoderShape
from twinlens.spec.precision import precision as regime
from twinlens.theory.weight_format import widths
from weight_files import safetensors

AWQ = {"quant_method": "awq", "bits": 4}
STORED = {
    "int4-weight-awq": AWQ,
    "int4-weight-gptq": {"quant_method": "gptq", "bits": 4},
    "mxfp4": {"quant_method": "mxfp4"},
    "nvfp4": {"quant_method": "modelopt", "quant_algo": "NVFP4"},
}
W8A8 = {"quant_method": "compressed-tensors", "config_groups": {"group_0": {
    "weights": {"num_bits": 8, "type": "int"}, "input_activations": {"num_bits": 8, "type": "int"}}}}  # fmt: skip
FP8 = {
    "quant_method": "compressed-tensors",
    "config_groups": {"group_0": {"weights": {"num_bits": 8, "type": "float"}}},
}


def blocks(bits: int, size: int, *, both: bool = False) -> dict[str, Any]:
    """A group of compressed-tensors in floating-point blocks, of weights or of activations too."""
    kind = {"num_bits": bits, "type": "float", "group_size": size}
    inputs = {"input_activations": kind} if both else {}
    return {"quant_method": "compressed-tensors", "config_groups": {"group_0": {"weights": kind} | inputs}}


AT_RATE: dict[str, Any] = {"arrival": {"kind": "poisson"}, "point": {"rate_per_s": 2.0}}


def folder(path: Path, **config: Any) -> str:
    path.mkdir()
    (path / "config.json").write_text(json.dumps({"model_type": "from-tomorrow"} | config))
    (path / "model.safetensors").write_bytes(b"weights")
    (path / "tokenizer.json").write_text("{}")
    return str(path)


def vllm(model: str, **parts: Any) -> dict[str, Any]:
    data = inference("vllm", model, **(AT_RATE | parts))
    data["point"] = AT_RATE["point"] | parts.get("point", {})
    return data


def line(model: str, **parts: Any) -> str:
    spec = spec_of(vllm(model, **parts))
    settings = settings_of("vllm", spec.executor.options, "/venv/bin/python", RECIPE.graphs, RECIPE.switches)
    return " ".join(RECIPE.command(order_of(RECIPE, spec, settings, folder=model, port=8000)).argv)


def test_a_type_that_is_not_read_here_is_served_and_theory_says_why_it_is_silent(tmp_path: Path) -> None:
    model = folder(tmp_path / "tomorrow", model_type="from-tomorrow", text_config={"max_position_embeddings": 700})
    assert servable(any_model(model)).shape is None
    assert "--max-model-len 700" in line(model)
    spec = spec_of(vllm(model))
    memory, words = needed(spec)
    assert memory is None
    assert "from-tomorrow" in words
    assert {one.value for one in theory_of(spec).values()} == {None}
    facts = provenance(spec, Facts(ExecutorRecord({})))
    assert facts["model.id"].value == model
    assert "from-tomorrow" in str(facts["model.parameters"].reason)
    (found,) = check(study_of(vllm(model)), refuse=False).points  # vLLM itself is elsewhere
    assert found.memory_bytes is None


def test_a_known_type_with_a_config_that_is_not_read_here_is_served_too(tmp_path: Path) -> None:
    """A mixture in every second layer: theory refuses to count it, and vLLM serves it all the same."""
    config = {**load_model("deepseek-v2-lite").config, "moe_layer_freq": 2}
    model = folder(tmp_path / "v2", **config)
    assert model in line(model)
    memory, words = needed(spec_of(vllm(model)))
    assert memory is None
    assert "moe_layer_freq" in words
    with pytest.raises(BadInput, match="moe_layer_freq"):
        theory_of(spec_of(training(model=model)))


def test_an_executor_that_needs_the_sizes_names_the_types_that_theory_reads(tmp_path: Path) -> None:
    model = folder(tmp_path / "rwkv", model_type="rwkv")
    with pytest.raises(BadInput, match=r"theory reads .*deepseek_v2, .*gpt2, .*llama"):
        theory_of(spec_of(training("torch-parallel", model=model)))


def test_an_attached_server_may_serve_what_nobody_here_has_heard_of() -> None:
    asked = inference("openai-http", "who/knows-7b", options={"url": "http://127.0.0.1:1/v1"}, **AT_RATE)
    spec = spec_of(asked)
    assert {one.reason for one in theory_of(spec).values()} == {"the model is the server's, and nothing of it is here"}
    assert needed(spec)[0] is None
    with pytest.raises(BadInput):
        theory_of(spec_of(vllm("who/knows-7b")))


@pytest.mark.parametrize(
    ("config", "name"),
    [
        (AWQ, "int4-weight-awq"), ({"quant_method": "gptq", "bits": 4}, "int4-weight-gptq"), (
            {"quant_method": "gptq", "bits": 8}, "int8-weight"), (W8A8, "int8-dynamic"),
        (FP8, "fp8"), ({"quant_method": "fp8"}, "fp8"), ({"quant_method": "hqq"}, "hqq"),
        ({"quant_method": "mxfp4"}, "mxfp4"), (None, ""),
        ({"quant_method": "modelopt", "quant_algo": "FP8"}, "fp8"),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4", "group_size": 16}, "nvfp4"),
        ({"quant_method": "modelopt_fp4"}, "nvfp4"), ({"quant_method": "modelopt", "quant_algo": "MXFP8"}, "mxfp8"),
        ({"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION"}, "modelopt MIXED_PRECISION"),
        ({"quant_method": "modelopt", "quant_algo": "W4A16_NVFP4"}, "modelopt W4A16_NVFP4"),
        (blocks(4, 16, both=True), "nvfp4"), (blocks(8, 32, both=True), "mxfp8"), (blocks(4, 32), "mxfp4"),
        (blocks(4, 16), "compressed-tensors"),
    ],
)  # fmt: skip
def test_what_a_folder_is_quantised_to_has_its_name_here(config: Any, name: str) -> None:
    assert stored_precision({"quantization_config": config} if config else {}) == name


def test_a_quantised_folder_runs_under_its_own_precision_only(tmp_path: Path) -> None:
    model = folder(tmp_path / "awq", quantization_config=AWQ)
    assert "--dtype auto" in line(model, point={"precision": "int4-weight-awq"})
    with pytest.raises(BadInput, match=r'quantised to int4-weight-awq.*point.precision = "int4-weight-awq"') as caught:
        line(model, point={"precision": "bf16"})
    assert caught.value.code == "TL203"
    spec = spec_of(vllm(model, point={"precision": "int4-weight-awq"}))
    said = {"precision.weights": declared("bf16", "its dtype"), "precision.activations": declared("bf16", "its dtype")}
    known = said | _stored(spec, ModelFolder(Path(model), "0" * 16, made=False))
    weights = next(one for one in checks(spec, known) if one.tensor_class == "weights")
    assert weights.verdict == "unknown", "its word agrees, and nobody looked"
    assert "is no safetensors file" in str(known["precision.head"].reason)
    assert next(one for one in checks(spec, said) if one.tensor_class == "weights").verdict == "differs"


def test_a_head_that_was_not_quantised_with_the_rest_is_counted_at_its_own_width(tmp_path: Path) -> None:
    model = Path(folder(tmp_path / "awq", quantization_config=AWQ))
    tensors = {"lm_head.weight": ("BF16", (100, 10), 2000), "layer.qweight": ("I32", (10,), 40)}
    (model / "model.safetensors").write_bytes(safetensors(tensors))
    spec = spec_of(vllm(str(model), point={"precision": "int4-weight-awq"}))
    head = _stored(spec, ModelFolder(model, "0" * 16, made=False))["precision.head"]
    assert (head.value, head.source) == ("bf16", "lm_head.weight in the header of its file")
    shape = load_model("small").shape
    assert isinstance(shape, DecoderShape)
    wide, narrow = widths(shape, spec.precision, head.value), widths(shape, spec.precision)
    assert (wide.head_bits, narrow.head_bits) == (16.0, None)
    (model / "model.safetensors").write_bytes(safetensors({"lm_head.weight": ("I32", (10,), 40)}))
    assert "precision.head" not in _stored(spec, ModelFolder(model, "0" * 16, made=False)), "it is packed with the rest"


@pytest.mark.parametrize(
    ("precision", "word", "differs"),
    [
        ("bf16", "None", False), ("bf16", "fp8", True), ("bf16", "some_new_way", True),
        ("int4-weight-awq", "awq_marlin", False), ("int4-weight-awq", "gptq_marlin", True),
        ("int4-weight-awq", "None", True), ("int4-weight-gptq", "compressed-tensors", False),
        ("mxfp4", "mxfp4", False), ("mxfp4", "fp8", True), ("mxfp4", "some_new_way", False),
        ("nvfp4", "modelopt_fp4", False), ("nvfp4", "modelopt", True), ("nvfp4", "mxfp8", True),
    ],
)  # fmt: skip
def test_a_precision_is_held_against_the_servers_word_for_its_quantisation(
    tmp_path: Path, precision: str, word: str, differs: bool
) -> None:
    quantised = {} if precision == "bf16" else {"quantization_config": STORED[precision]}
    model = folder(tmp_path / "model", **quantised)
    spec = spec_of(vllm(model, point={"precision": precision}))
    said = quantisation({"quantization": word}, "/server_info", none_says=True)
    weights = next(one for one in checks(spec, said) if one.tensor_class == "weights")
    assert (weights.verdict == "differs") is differs


def test_a_word_for_the_type_of_a_file_is_none_for_a_quantisation() -> None:
    assert not contradicts("bf16", "Q4_K - Medium")
    assert quantisation({"quantization": None}, "the log", none_says=False) == {}, "SGLang finds out by itself"
    assert quantisation({}, "/server_info", none_says=True) == {}


def test_a_quantisation_without_a_name_here_is_to_be_attached(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="quantised by hqq, which has no name here"):
        line(folder(tmp_path / "hqq", quantization_config={"quant_method": "hqq"}), point={"precision": "bf16"})


def test_check_refuses_what_the_server_could_not_be_started_with(tmp_path: Path) -> None:
    model = folder(tmp_path / "phi")
    with pytest.raises(BadInput, match="vllm is started at fp32, bf16, fp16, fp8, mxfp8, nvfp4, not") as caught:
        check(study_of(vllm(model, point={"precision": "int8-weight"})))
    assert caught.value.code == "TL203"


def test_a_page_that_does_not_answer_in_time_is_named_and_not_passed_over() -> None:
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        found, silent = pages(deaf.getsockname()[1], ("/server_info?config_format=json",), patience_s=0.05)
    assert (found, silent) == ({}, ["/server_info?config_format=json"])
    assert "did not answer /server_info in time" in sentence_of(_silence(silent[0]))


def test_a_model_that_sees_is_served_whether_or_not_its_text_part_is_read(tmp_path: Path) -> None:
    whole = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4,
             "vocab_size": 99, "max_position_embeddings": 700, "model_type": "qwen2"}  # fmt: skip
    read = any_model(folder(tmp_path / "read", text_config=whole))
    assert read.shape is not None
    assert "of its text part" in theory_of(spec_of(vllm(str(tmp_path / "read"))))["parameters"].method
    part = any_model(folder(tmp_path / "part", text_config={"model_type": "qwen2", "hidden_size": 64}))
    assert part.shape is None
    assert "has no 'num_attention_heads'" in part.why


@pytest.mark.parametrize(
    ("files", "options", "endpoint"),
    [
        ({}, {}, "completions"),
        ({"tokenizer_config.json": "{}"}, {}, "completions"),
        ({"tokenizer_config.json": "not JSON"}, {}, "completions"),
        ({"tokenizer_config.json": '{"chat_template": "{{ messages }}"}'}, {}, None),
        ({"chat_template.jinja": "{{ messages }}"}, {}, None),
        ({"tekken.json": "{}"}, {}, None),
        ({}, {"endpoint": "chat"}, "chat"),
        ({}, {"args": ["--chat-template", "mine.jinja"]}, None),
    ],
)
def test_a_folder_without_a_chat_template_is_asked_for_completions_before_it_is_started(
    tmp_path: Path, files: dict[str, str], options: dict[str, Any], endpoint: str | None
) -> None:
    model = folder(tmp_path / "m")
    for name, text in files.items():
        (Path(model) / name).write_text(text)
    spec = spec_of(vllm(model, options=options))
    settings = with_endpoint(settings_of("vllm", options, "python", switches=RECIPE.switches), RECIPE, spec)
    assert settings.client.get("endpoint") == endpoint
    assert LaunchedServer(RECIPE).key(spec), "the endpoint is no part of the server"


@pytest.mark.parametrize(("host", "listen", "is_open"), [(None, "127.0.0.1", False), ("10.0.0.5", "0.0.0.0", True)])
def test_a_server_listens_to_other_machines_only_where_the_spec_names_this_one(
    tmp_path: Path, host: str | None, listen: str, is_open: bool
) -> None:
    options = {} if host is None else {"host": host}
    model = folder(tmp_path / "m")
    settings = settings_of("vllm", options, "python", switches=RECIPE.switches)
    command = RECIPE.command(order_of(RECIPE, spec_of(vllm(model, options=options)), settings, folder=model, port=8000))
    assert command.argv[command.argv.index("--host") + 1] == listen
    assert ("VLLM_SERVER_DEV_MODE" in command.environment) is not is_open


@pytest.mark.parametrize("options", [{"host": "a b"}, {"host": "http://x"}, {"host": 7}, {"host": "x", "replicas": 2}])
def test_a_host_that_is_none_or_has_a_balancer_before_it_is_one_sentence(options: dict[str, Any]) -> None:
    with pytest.raises(BadInput, match=r"executor\.options\.host"):
        settings_of("vllm", options, "python", switches=RECIPE.switches)


def online(precision: str, word: str, kernel: str = "") -> dict[str, tuple[str, Any]]:
    """What is checked of a wide folder that vLLM quantises while it loads: verdict and observed format by class."""
    spec = spec_of(vllm("small", executor={"device": "cuda"}, point={"precision": precision}))
    said = formats("bfloat16", "auto", "/server_info")
    said |= _with_kernel(quantisation({"quantization": word}, "/server_info", none_says=True), kernel)
    said |= _online(RECIPE, spec, said)
    return {one.tensor_class: (one.verdict, one.observed) for one in checks(spec, said)}


@pytest.mark.parametrize(("precision", "word"), [("fp8", "fp8"), ("mxfp8", "mxfp8"), ("nvfp4", "nvfp4_per_token")])
def test_vllm_makes_narrow_formats_of_a_wide_folder_and_says_so(precision: str, word: str) -> None:
    asked = spec_of(vllm("small", executor={"device": "cuda"}, point={"precision": precision}))
    argv = RECIPE.command(LaunchConfig(asked, "python", "/models/small", "small", 8000, 1, 512)).argv
    assert argv[argv.index("--quantization") + 1] == word
    assert argv[argv.index("--dtype") + 1] == "bfloat16"
    assert online(precision, word)["weights"] == ("unknown", None), "its word agrees, and nobody looked"
    assert online(precision, word)["activations"] == ("unknown", None)
    assert online(precision, "None")["weights"][0] == "differs", "it was asked for and not done"
    marlin = online("fp8", "fp8", "Selected MarlinFP8ScaledMMLinearKernel for Fp8OnlineLinearMethod")
    assert marlin["activations"] == ("differs", "bf16"), "a board without fp8 widens the weights again"
    on_cpu = spec_of(vllm("small", executor={"device": "cpu"}, point={"precision": precision}))
    with pytest.raises(BadInput, match="on GPUs only"):
        RECIPE.command(LaunchConfig(on_cpu, "python", "/models/small", "small", 8000, 1, 512))


def test_a_folder_of_modelopt_that_says_it_in_a_file_of_its_own_has_its_name(tmp_path: Path) -> None:
    model = Path(folder(tmp_path / "nvfp4"))
    said = {"producer": {"name": "modelopt"}, "quantization": {"quant_algo": "NVFP4", "group_size": 16}}
    (model / "hf_quant_config.json").write_text(json.dumps(said))
    assert "--dtype auto" in line(str(model), point={"precision": "nvfp4"})
    spec = spec_of(vllm(str(model), point={"precision": "nvfp4"}))
    known = _stored(spec, ModelFolder(model, "0" * 16, made=False))
    assert (known["precision.weights"].value, known["precision.activations"].value) == ("nvfp4", "nvfp4")
    (model / "hf_quant_config.json").write_text("[")
    with pytest.raises(BadInput, match="is started at fp32, bf16, fp16, fp8, mxfp8, nvfp4, not int8"):
        line(str(model), point={"precision": "int8-weight"})


def test_smoothquant_on_a_gpu_is_not_asked_for_fp32(tmp_path: Path) -> None:
    scheme = {"num_bits": 8, "type": "int", "dynamic": False}
    both = {"group_0": {"weights": scheme, "input_activations": scheme}}
    model = folder(tmp_path / "w8a8", quantization_config={"quant_method": "compressed-tensors", "config_groups": both})
    parts: dict[str, Any] = {"point": {"precision": "int8-static"}}
    assert "--dtype float32" in line(model, executor={"device": "cpu"}, **parts)
    with pytest.raises(BadInput, match=r'kernels of a GPU take bf16 or fp16.*kv_format = "bf16"'):
        line(model, executor={"device": "cuda"}, **parts)
    assert "--dtype auto" in line(model, executor={"device": "cuda"}, options={"kv_format": "bf16"}, **parts)


def test_blocks_take_their_scales_too_and_are_held_against_the_rates_that_makers_state() -> None:
    assert regime("nvfp4").weight_bits("inference") == 4.5
    assert regime("mxfp8").weight_bits("inference") == 8.25
    b200 = load_device("b200-sxm-180gb")
    assert b200.rate("nvfp4") == b200.rate("fp4")
    assert b200.rate("mxfp8") == b200.rate("fp8")
