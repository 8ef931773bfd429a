"""Folders of fp8 with one scale for each block, as DeepSeek-V3 and Qwen3-FP8 are released: loaded right, or refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from material import inference, measured, spec_of, study_of, training

pytestmark = pytest.mark.torch
torch = pytest.importorskip("torch")

from safetensors.torch import load_file, save_file  # noqa: E402

from twinlens.api.measuring.studies import check  # noqa: E402
from twinlens.errors import BadInput  # noqa: E402
from twinlens.executors.torch.model.build import build_model  # noqa: E402
from twinlens.executors.torch.model.without_memory import bare_model, fill  # noqa: E402
from twinlens.measurement.study import measure_study  # noqa: E402
from twinlens.reporting.wording.finding import sentence_of  # noqa: E402
from twinlens.spec.model.any_model import any_model  # noqa: E402
from twinlens.spec.model.header import read_safetensors  # noqa: E402
from twinlens.spec.model.reference import load_model  # noqa: E402
from twinlens.theory.weight_format import stored_bytes, weight_format  # noqa: E402

CPU, BLOCK = torch.device("cpu"), 128
DENSE = {
    "model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"], "vocab_size": 64, "hidden_size": 192,
    "intermediate_size": 320, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
    "head_dim": 48, "max_position_embeddings": 128, "tie_word_embeddings": False,
}  # fmt: skip
EXPERTS = DENSE | {
    "model_type": "qwen3_moe", "architectures": ["Qwen3MoeForCausalLM"], "num_experts": 4, "num_experts_per_tok": 2,
    "moe_intermediate_size": 144, "decoder_sparse_step": 1, "mlp_only_layers": [],
}  # fmt: skip
QUANTISED = {"quant_method": "fp8", "fmt": "e4m3", "activation_scheme": "dynamic", "weight_block_size": [BLOCK, BLOCK]}


def released(parent: Path, scales: Any = torch.float32, **config: Any) -> tuple[Path, dict[str, Any]]:
    """A folder in two files as its maker would release it, and what each of its matrices is worth, block by block."""
    config = config or DENSE
    plain, folder = parent / "plain", parent / "released"
    parent.mkdir(exist_ok=True)
    (parent / "config.json").write_text(json.dumps(config))
    build_model(any_model(str(parent / "config.json")), "sdpa", 3, CPU).save_pretrained(plain)
    stored, worth = {}, {}
    for name, value in load_file(plain / "model.safetensors").items():
        narrow = value.dim() == 2 and "layers." in name and ".gate." not in name
        if not narrow:
            stored[name] = value.to(torch.bfloat16)
            worth[name] = stored[name].float()
            continue
        rows, columns = value.shape
        codes, known = torch.zeros(rows, columns, dtype=torch.float8_e4m3fn), torch.zeros(rows, columns)
        of_blocks = torch.zeros(-(-rows // BLOCK), -(-columns // BLOCK), dtype=scales)
        for row in range(0, rows, BLOCK):
            for column in range(0, columns, BLOCK):
                place = slice(row, row + BLOCK), slice(column, column + BLOCK)
                scale = (value[place].abs().max() / 448 * (1 + (row + 2 * column) / BLOCK)).to(scales)
                of_blocks[row // BLOCK, column // BLOCK] = scale
                codes[place] = (value[place] / scale.float()).to(torch.float8_e4m3fn)
                known[place] = codes[place].float() * scale.float()
        stored |= {name: codes, f"{name}_scale_inv": of_blocks}
        worth[name] = known
    folder.mkdir()
    names = sorted(stored)
    halves = {"model-1.safetensors": names[::2], "model-2.safetensors": names[1::2]}
    for file, own in halves.items():  # a matrix and its scales lie in different ones
        save_file({name: stored[name] for name in own}, folder / file, metadata={"format": "pt"})
    index = {"metadata": {}, "weight_map": {name: file for file, own in halves.items() for name in own}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    (folder / "config.json").write_text(json.dumps(config | {"quantization_config": QUANTISED}))
    return folder, worth


def same_as(model: Any, worth: dict[str, Any], parent: Path) -> bool:
    """Whether the model computes what the released weights are worth; its own folder, written again, tells names."""
    model.save_pretrained(parent / "again")
    again = load_file(parent / "again" / "model.safetensors")
    assert again.keys() == worth.keys()
    return all(torch.equal(again[name], value.to(again[name].dtype)) for name, value in worth.items())


@pytest.mark.parametrize("config", [DENSE, EXPERTS], ids=["dense", "experts"])
@pytest.mark.parametrize("scales", [torch.float32, torch.bfloat16], ids=["as DeepSeek-V3", "as Qwen3-FP8"])
def test_each_weight_is_its_code_times_the_scale_of_its_block(config: Any, scales: Any, tmp_path: Path) -> None:
    folder, worth = released(tmp_path, scales, **config)
    model = build_model(any_model(str(folder)), "sdpa", 0, CPU)
    assert {each.dtype for each in model.parameters()} == {torch.float32}
    assert same_as(model, worth, tmp_path), "blocks at the edges are cut: 192 rows are 128 and 64"
    assert "quantization_config" not in json.loads((tmp_path / "again" / "config.json").read_text())
    assert same_as(build_model(any_model(str(folder)), "sdpa", 0, CPU, torch.bfloat16), worth, tmp_path)


def test_ranks_have_the_same_weights(tmp_path: Path) -> None:
    folder, worth = released(tmp_path)
    model, recipe = bare_model(any_model(str(folder)), "sdpa", 7, CPU)
    fill(model, recipe, lambda phrase: None)
    assert same_as(model, worth, tmp_path)


def test_a_run_says_that_it_is_not_of_the_released_format(tmp_path: Path) -> None:
    folder, _ = released(tmp_path)
    for asked in (inference(model=str(folder), point={"precision": "bf16"}), training(model=str(folder))):
        run = measured(tmp_path / "runs", asked)
        assert run.state == "finished"
        assert run.facts is not None
        found = next(each for each in run.facts.findings if each.code == "weights-expanded")
        assert "stored in fp8 with a scale for each 128 × 128 weights; they were expanded" in sentence_of(found)


def edited(folder: Path, **quantised: Any) -> str:
    config = json.loads((folder / "config.json").read_text())
    del config["quantization_config"]
    config |= {"quantization_config": quantised} if quantised else {}
    (folder / "config.json").write_text(json.dumps(config))
    return str(folder)


@pytest.mark.parametrize(
    ("quantised", "word"),
    [({"quant_method": "gptq", "bits": 4}, "int4-weight-gptq"), ({"quant_method": "fp8"}, "fp8"),
     (QUANTISED | {"expert_dtype": "fp4"}, "fp8"), (QUANTISED | {"weight_block_size": [128, "x"]}, "fp8")],
)  # fmt: skip
@pytest.mark.parametrize("kind", ["torch", "torch-parallel"])
def test_what_is_not_expanded_here_is_refused_before_a_run(
    kind: str, quantised: Any, word: str, tmp_path: Path
) -> None:
    folder, _ = released(tmp_path)
    asked = training(kind, edited(folder, **quantised))
    sentence = f"are quantised to {word}, which servers alone load"
    for refuse in (lambda: check(study_of(asked)), lambda: measure_study(study_of(asked), tmp_path / "runs")):
        with pytest.raises(BadInput, match=sentence) as caught:
            refuse()
        assert caught.value.code == "TL202"
    with pytest.raises(BadInput, match=sentence):
        build_model(any_model(str(folder)), "sdpa", 0, CPU)


def test_a_folder_of_modelopt_is_not_loaded_without_its_scales(tmp_path: Path) -> None:
    folder, _ = released(tmp_path)
    edited(folder)
    (folder / "hf_quant_config.json").write_text(json.dumps({"quantization": {"quant_algo": "FP8"}}))
    with pytest.raises(BadInput, match="are quantised to fp8, which servers alone load"):
        check(study_of(inference(model=str(folder))))


@pytest.mark.parametrize(
    ("instead", "has"), [(None, "none"), (torch.ones(1, 2), "1 × 2"), (torch.ones(2, 2).char(), "none")]
)
def test_a_matrix_without_a_scale_for_each_block_is_refused(instead: Any, has: str, tmp_path: Path) -> None:
    folder, _ = released(tmp_path)
    name = "model.layers.0.self_attn.q_proj.weight"
    for file in folder.glob("*.safetensors"):
        tensors = load_file(file)
        if tensors.pop(f"{name}_scale_inv", None) is not None:
            tensors |= {} if instead is None else {f"{name}_scale_inv": instead}
            save_file(tensors, file)
    with pytest.raises(BadInput, match=f"{name} of .* is fp8 and needs 2 × 2 scales.* has {has}") as caught:
        check(study_of(inference(model=str(folder))))
    assert caught.value.code == "TL201"


def test_plans_count_the_scales(tmp_path: Path) -> None:
    config = DENSE | {"hidden_size": 256, "intermediate_size": 512, "head_dim": 64}
    folder, _ = released(tmp_path, **config)
    model, held = load_model(str(folder)), read_safetensors(sorted(folder.glob("*.safetensors")))
    assert model.released == "fp8-block-128"
    counted = stored_bytes(model.shape, weight_format("fp8-block-128"))
    assert counted == held.bytes
    scales = sum(load_file(file)[name].nbytes for file in folder.glob("*.safetensors")
                 for name in load_file(file) if name.endswith("_scale_inv"))  # fmt: skip
    assert counted - stored_bytes(model.shape, weight_format("fp8")) == scales > 0


def test_weights_that_are_made_from_a_config_alone_are_in_16_bits(tmp_path: Path) -> None:
    folder, _ = released(tmp_path)
    alone = any_model(str(folder / "config.json"))
    assert "quantization_config" not in alone.config
    assert spec_of(inference(model=str(folder / "config.json"))).model.config == alone.config
    build_model(alone, "sdpa", 0, CPU)
