"""`transformers serve`, really: a model folder made from the catalogue, served, loaded at two rates, and ended."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from test_launch_process import lives

from material import fixed, inference, quiet, run_json, study_of
from twinlens.executors.fidelity.readings import Unusable
from twinlens.executors.fidelity.served import scores_of
from twinlens.executors.launch.model_folder import model_folder
from twinlens.measurement.study import measure_study
from twinlens.measurement.summary_file import summary_of
from twinlens.record.codec import decode
from twinlens.record.sections import Running
from twinlens.reporting.wording.finding import sentence_of
from twinlens.schedule.prompt import WORDS
from twinlens.spec.model.any_model import any_model
from twinlens.spec.model.reference import load_model
from twinlens.theory.flop import parameters

pytestmark = [pytest.mark.torch, pytest.mark.slow]
for name in ("torch", "transformers", "uvicorn", "fastapi"):
    pytest.importorskip(name, reason="needs the torch and serve extras")


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


def test_a_model_folder_is_made_once(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from safetensors.torch import load_file
    from transformers import AutoTokenizer

    monkeypatch.setenv("TWINLENS_CACHE", str(cache))
    said: list[str] = []
    folder = model_folder(any_model("tiny"), said.append)
    assert said == ["making random weights and a tokenizer for tiny (once)"]
    assert model_folder(any_model("tiny"), said.append) == folder
    assert len(said) == 1
    assert folder.made
    assert not list(folder.path.parent.glob(".*")), "no half-made folder is left"
    tokenizer = AutoTokenizer.from_pretrained(folder.path)
    assert len(tokenizer) == load_model("tiny").config["vocab_size"]
    tensors = load_file(folder.path / "model.safetensors")
    assert sum(tensor.numel() for tensor in tensors.values()) == parameters(load_model("tiny").shape).total
    zero = set((tensors["lm_head.weight"].float().abs().sum(1) == 0).nonzero().flatten().tolist())
    assert zero == {number for number in range(len(tokenizer)) if not is_text(tokenizer, number)}
    assert len(zero) > 6
    turn = [{"role": "user", "content": " hope"}]
    assert (
        tokenizer.apply_chat_template(turn, tokenize=False, add_generation_prompt=True) == "<|user|> hope<|assistant|>"
    )


@pytest.mark.parametrize("vocabulary", [40, 300, 4096])
def test_a_tokenizer_has_exactly_the_entries_that_the_model_has(vocabulary: int) -> None:
    from twinlens.executors.torch.model.folder import byte_level

    tokenizer = byte_level(vocabulary)
    assert tokenizer.get_vocab_size() == vocabulary
    assert all(tokenizer.id_to_token(number) for number in range(vocabulary))
    assert max(tokenizer.encode(" " + word).ids[0] for word in WORDS) < vocabulary


def test_with_room_for_them_every_word_of_a_prompt_is_one_token_and_every_text_survives() -> None:
    from twinlens.executors.torch.model.folder import byte_level

    tokenizer = byte_level(4096)
    assert {len(tokenizer.encode(" " + word).ids) for word in WORDS} == {1}
    assert tokenizer.decode(tokenizer.encode("Grüße, 世界").ids) == "Grüße, 世界"


def is_text(tokenizer: Any, number: int) -> bool:
    """What a server streams for one token alone: nothing for a special one, nothing yet for half a character."""
    text = tokenizer.decode([number], skip_special_tokens=True)
    return bool(text) and "\ufffd" not in text


def test_a_real_server_is_driven_at_two_rates_by_poisson_load(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TWINLENS_CACHE", str(cache))
    data = inference(
        "transformers-serve", "tiny", executor={"threads": 1}, point={"precision": "bf16"},
        sweep={"rate_per_s": [4.0, 8.0]}, arrival={"kind": "poisson"}, fidelity_prompts=4,
        input_tokens=fixed(12), output_tokens=fixed(5), protocol={"duration_s": 3.0, "min_rows": 1},
    )  # fmt: skip
    phrases: list[str] = []
    outcome = measure_study(study_of(data), tmp_path, lambda event: phrases.append(event.phrase))
    assert not outcome.failures
    assert phrases.count("starting transformers serve") == 1
    first, second = outcome.runs
    server = decode(Running, run_json(first)["server"])
    assert server.id == run_json(second)["server"]["id"], "two rates share one server"
    assert not lives(server.pid)
    for run in outcome.runs:
        rows = run.requests
        assert len(rows.outcome) == run.table.num_rows > 0
        assert set(run.table["outcome"].to_pylist()) == {"ok"}
        assert set(run.table["output_tokens"].to_pylist()) == {5}, "random weights name no end: no answer is cut off"
        summary = summary_of(run)
        assert 0 < (summary.metrics["ttft_s_p50"].value or 0) < 5
        assert summary.metrics["failed_share"].value == 0
        assert summary.metrics["answer_agreement"].value == pytest.approx(1.0, abs=0.3)
        assert summary.gate is not None
        assert [finding.subject for finding in summary.gate.broken] in ([], ["answer_agreement"])
        assert run.facts is not None
        assert run.facts.compared is not None
        assert (run.facts.compared.how, run.facts.compared.reference) == ("answers", "the same weights in fp32")
        assert len(run.facts.fidelity) == 4
        assert "HTTP 422" in run.facts.compared.instead, "it knows no prompt_logprobs, and says so"
    assert first.facts is not None
    executor = first.facts.executor
    assert executor.value("software.runtime.name") == "transformers serve"
    assert executor.facts["software.runtime.version"].capture == "observed"
    assert executor.value("precision.weights") == "bf16"
    assert executor.value("serving.batching") == "continuous, paged"
    assert executor.value("model.id") == "tiny"
    assert executor.value("model.parameters") == parameters(load_model("tiny").shape).total
    assert "torch" in executor.value("software.libraries")
    assert server.process["resident_bytes"] > 100e6
    assert any("weights are random" in note for note in map(sentence_of, first.facts.findings))


def test_the_reference_of_a_folder_is_what_its_weights_say_in_fp32(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    monkeypatch.setenv("TWINLENS_CACHE", str(cache))
    folder = model_folder(any_model("tiny"), quiet).path
    prompt = tuple(range(40, 52))
    (scored,) = scores_of(folder, [prompt], top=5, threads=1)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    with torch.inference_mode():
        logits = model(torch.tensor([prompt])).logits[0].log_softmax(-1)
    assert scored.tokens == prompt
    assert len(scored.places) == 11, "nothing is said of what follows the last token"
    for place, row, following in zip(scored.places, logits, prompt[1:], strict=False):
        assert set(place) == {*row.topk(5).indices.tolist(), following}
        assert place[following] == pytest.approx(float(row[following]), abs=1e-4)
    assert len(list((cache / "fidelity").glob("*.json"))) >= 1
    monkeypatch.setattr("twinlens.executors.fidelity.served._asked", None)
    assert scores_of(folder, [prompt], top=5, threads=1) == [scored], "the same weights and prompts: computed once"

    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert tokenizer.decode(prompt), "the folder has a tokenizer, with which answers are read"


def test_a_folder_whose_weights_cannot_be_loaded_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TWINLENS_CACHE", str(tmp_path / "cache"))
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "config.json").write_text(json.dumps(load_model("tiny").config))
    with pytest.raises(Unusable, match="no safetensors"):
        scores_of(mine, [(1, 2)], top=5, threads=1)
    (mine / "model.safetensors").write_bytes(b"no weights")
    with pytest.raises(Unusable, match=r"fp32 reference could not be computed: the weights in .* cannot be loaded"):
        scores_of(mine, [(1, 2)], top=5, threads=1)
    assert not list((tmp_path / "cache").rglob("*.json"))


def test_a_local_folder_is_served_as_it_is(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TWINLENS_CACHE", str(cache))
    made = model_folder(any_model("tiny"), quiet)
    mine = tmp_path / "mine"
    shutil.copytree(made.path, mine)
    (mine / "twinlens-weights.json").unlink()
    folder = model_folder(any_model(str(mine)), quiet)
    assert (folder.path, folder.digest, folder.made) == (mine, made.digest, False)
    assert not (mine / "twinlens-weights.json").exists(), "nothing is written into a folder of the user's"
