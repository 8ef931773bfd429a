"""Models of types that theory does not know: they run, and what is not known is absent with its reason."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="needs the torch extra")

import transformers  # noqa: E402

from material import inference, measured, quiet, spec_of, training  # noqa: E402
from twinlens.errors import BadInput  # noqa: E402
from twinlens.executors.refuse import refuse_unsupported  # noqa: E402
from twinlens.executors.torch.infer import TorchServer  # noqa: E402
from twinlens.executors.torch.model.build import parameter_count  # noqa: E402
from twinlens.measurement.summary_file import summary_of  # noqa: E402
from twinlens.reporting.wording.finding import sentence_of  # noqa: E402
from twinlens.spec.model.any_model import any_model  # noqa: E402

pytestmark = pytest.mark.torch
EAGER = {"attention": "eager"}
GPTJ = {
    "model_type": "gptj", "n_embd": 32, "n_layer": 2, "n_head": 4, "rotary_dim": 4, "vocab_size": 96, "n_positions": 64,
    "n_inner": 48, "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip
RWKV = {"model_type": "rwkv", "hidden_size": 32, "num_hidden_layers": 2, "vocab_size": 96, "context_length": 64}


def written(folder: Path, config: dict[str, Any]) -> str:
    file = folder / "config.json"
    file.write_text(json.dumps(config))
    return str(file)


@pytest.mark.parametrize("lens", [training, inference])
def test_a_type_unknown_to_theory_runs_and_what_is_not_known_says_why(tmp_path: Path, lens: Any) -> None:
    model = written(tmp_path, GPTJ)
    run = measured(tmp_path / "runs", lens(model=model, options=dict(EAGER), protocol={"ceilings": True}))
    summary = summary_of(run)
    work = run.facts.work
    assert work["parameters"].value == parameter_count(any_model(model))
    for share in ("mfu", "hfu") if lens is training else ("mbu", "prefill_mfu"):
        estimate = summary.metrics[share]
        assert (estimate.value, estimate.reason) == (None, "theory here knows no models of type 'gptj'")
    (said,) = [found for found in summary.findings if found.code == "shape-unknown"]
    assert "gptj" in sentence_of(said)


def test_a_model_without_a_static_cache_is_refused_for_answers_in_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="with a static KV cache") as caught:
        TorchServer().open(spec_of(inference(model=written(tmp_path, RWKV), options=EAGER)), quiet)
    assert (caught.value.code, "\n" in str(caught.value)) == ("TL202", False)


@pytest.mark.parametrize("more", [{}, {"auto_map": {"AutoModelForCausalLM": "modeling.Evil"}}])
def test_a_type_that_transformers_does_not_know_either_is_refused_and_no_code_is_run(
    tmp_path: Path, more: dict[str, Any]
) -> None:
    (tmp_path / "modeling.py").write_text("raise SystemExit('code of a model folder ran')")
    with pytest.raises(BadInput, match="transformers cannot build") as caught:
        TorchServer().open(spec_of(inference(model=written(tmp_path, {"model_type": "qwen9", **more}))), quiet)
    assert caught.value.code == "TL202"


HYBRID: dict[str, dict[str, Any]] = {
    "mamba2": {"num_heads": 8, "head_dim": 8, "state_size": 8, "n_groups": 1},
    "bamba": {"mamba_n_heads": 4, "mamba_d_head": 16, "mamba_d_state": 8, "attn_layer_indices": [1]},
    "falcon_h1": {"mamba_n_heads": 4, "mamba_d_head": 16, "mamba_d_ssm": 64, "mamba_d_state": 8},
    "lfm2": {"layer_types": ["conv", "full_attention"]},
}
SIZES: dict[str, Any] = {
    "vocab_size": 96, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 64, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip


@pytest.mark.parametrize("kind", HYBRID)
@pytest.mark.parametrize("weights", ["folder", "random"])
def test_a_recurrent_model_as_transformers_writes_it_is_refused_in_one_sentence(
    tmp_path: Path, kind: str, weights: str
) -> None:
    known = transformers.AutoConfig.for_model(kind).to_dict()
    sizes = {name: value for name, value in (SIZES | HYBRID[kind]).items() if name in known}
    config = transformers.AutoConfig.for_model(kind, **sizes)
    transformers.AutoModelForCausalLM.from_config(config).save_pretrained(tmp_path)
    model = str(tmp_path if weights == "folder" else tmp_path / "config.json")
    with pytest.raises(BadInput, match="recurrent layers, whose state the embedded engine cannot move") as caught:
        TorchServer().open(spec_of(inference(model=model, options=EAGER)), quiet)
    assert (caught.value.code, "\n" in str(caught.value)) == ("TL202", False)


@pytest.mark.parametrize("kind", HYBRID)
def test_check_refuses_its_answers_too_and_lets_it_be_trained(tmp_path: Path, kind: str) -> None:
    known = transformers.AutoConfig.for_model(kind).to_dict()
    sizes = {name: value for name, value in (SIZES | HYBRID[kind]).items() if name in known}
    transformers.AutoConfig.for_model(kind, **sizes).save_pretrained(tmp_path)
    model = str(tmp_path / "config.json")
    with pytest.raises(BadInput, match="recurrent layers, whose state the embedded engine cannot move"):
        refuse_unsupported(spec_of(inference(model=model, options=EAGER)))
    if any_model(model).shape is None:
        refuse_unsupported(spec_of(training(model=model, options=EAGER)))


@pytest.mark.parametrize(("layer", "is_refused"), [("mamba", True), ("attention", False)])
def test_a_type_whose_layers_may_all_attend_is_refused_by_what_they_are(
    tmp_path: Path, layer: str, is_refused: bool
) -> None:
    config = {"model_type": "granitemoehybrid", "layer_types": ["attention", layer], "vocab_size": 96}
    spec = spec_of(inference(model=written(tmp_path, config), options=EAGER))
    refused = pytest.raises(BadInput, match="recurrent layers") if is_refused else contextlib.nullcontext()
    with refused:
        refuse_unsupported(spec)


def test_a_config_with_an_infinity_builds_the_model_that_transformers_would(tmp_path: Path) -> None:
    config = transformers.AutoConfig.for_model("mamba2", **(HYBRID["mamba2"] | {"hidden_size": 32, "vocab_size": 96}))
    config.save_pretrained(tmp_path)
    assert '"__float__": "Infinity"' in (tmp_path / "config.json").read_text()
    with torch.device("meta"):
        bare = transformers.AutoModelForCausalLM.from_config(config)
    assert parameter_count(any_model(str(tmp_path / "config.json"))) == sum(each.numel() for each in bare.parameters())
