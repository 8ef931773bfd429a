"""Models that are divided before they have memory: their weights are those of a whole model, bit for bit."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytestmark = pytest.mark.torch
torch = pytest.importorskip("torch")

import torch.distributed as dist  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402
from torch.utils._pytree import tree_leaves  # noqa: E402

from material import quiet, spec_of, training  # noqa: E402
from twinlens.executors.torch.model.build import build_model  # noqa: E402
from twinlens.executors.torch.model.without_memory import bare_model, fill  # noqa: E402
from twinlens.executors.torch.parallel import entry, one_process  # noqa: E402
from twinlens.executors.torch.parallel.over_ranks import against_one_process  # noqa: E402
from twinlens.executors.torch.parallel.rank import Rank  # noqa: E402
from twinlens.reporting.wording.finding import sentence_of  # noqa: E402
from twinlens.spec.model.any_model import AnyModel, any_model  # noqa: E402

CPU = torch.device("cpu")
MOE = {"model_type": "mixtral", "num_local_experts": 4, "num_experts_per_tok": 2}
FAMILIES = {
    "llama": {"model_type": "llama", "tie_word_embeddings": True},
    "qwen3": {"model_type": "qwen3", "head_dim": 8},
    "gemma2": {"model_type": "gemma2", "head_dim": 8},
    "mixtral": MOE,
}


def model_of(tmp_path: Path, **more: Any) -> AnyModel:
    plain = {"vocab_size": 64, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 4,
             "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 128}  # fmt: skip
    (tmp_path / "config.json").write_text(json.dumps(plain | more))
    return any_model(str(tmp_path / "config.json"))


class Live(TorchDispatchMode):
    """The most bytes that tensors made meanwhile hold at once."""

    def __init__(self) -> None:
        super().__init__()
        self.now = self.most = 0
        self.held: dict[int, int] = {}

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        import weakref

        made = function(*args, **(kwargs or {}))
        for tensor in tree_leaves(made):
            tensor = getattr(tensor, "_local_tensor", tensor)  # this rank's part of a divided one
            if isinstance(tensor, torch.Tensor) and tensor.device.type != "meta":
                storage = tensor.untyped_storage()
                if storage.data_ptr() not in self.held:
                    self.held[storage.data_ptr()] = storage.nbytes()
                    self.now += storage.nbytes()
                    self.most = max(self.most, self.now)
                    weakref.finalize(storage, self.gone, storage.data_ptr())
        return made

    def gone(self, at: int) -> None:
        self.now -= self.held.pop(at, 0)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_model_that_is_filled_later_has_the_weights_of_one_that_is_built_whole(family: str, tmp_path: Path) -> None:
    ref = model_of(tmp_path, **FAMILIES[family])
    attention = "eager" if family == "gemma2" else "sdpa"
    whole = build_model(ref, attention, 7, CPU)
    drawn_next = torch.rand(1)
    model, recipe = bare_model(ref, attention, 7, CPU)
    assert torch.equal(torch.rand(1), drawn_next), "the generator is where it would be"
    assert {parameter.device.type for parameter in model.parameters()} == {"meta"}
    fill(model, recipe, quiet)
    built = dict(whole.named_parameters())
    assert built.keys() == dict(model.named_parameters()).keys()
    assert all(torch.equal(built[name], value) for name, value in model.named_parameters())
    tokens = torch.arange(8)[None]
    assert torch.equal(whole(tokens).logits, model(tokens).logits), "buffers too"


def test_weights_of_a_folder_are_its_own(tmp_path: Path) -> None:
    ref = model_of(tmp_path, **FAMILIES["llama"])
    saved = build_model(ref, "sdpa", 3, CPU)
    saved.save_pretrained(tmp_path / "folder")
    model, recipe = bare_model(any_model(str(tmp_path / "folder")), "sdpa", 7, CPU)
    fill(model, recipe, quiet)
    kept = dict(saved.named_parameters())
    assert all(torch.equal(kept[name], value) for name, value in model.named_parameters())


def test_nothing_larger_than_a_module_is_whole_before_the_model_is_divided(tmp_path: Path) -> None:
    ref = model_of(tmp_path, model_type="llama", num_hidden_layers=12)
    model = build_model(ref, "sdpa", 7, CPU)
    whole, largest = (
        how(sum(p.nbytes for p in module.parameters(recurse=False)) for module in model.modules()) for how in (sum, max)
    )
    with Live() as live:
        bare_model(ref, "sdpa", 7, CPU)
    assert 0 < live.most < 3 * largest < whole / 4


@pytest.fixture
def rank(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    made = Rank(quiet)
    yield made
    made.close()


@pytest.mark.parametrize("parallel", ["ddp", "fsdp2"])
def test_a_model_that_is_too_large_for_one_process_is_compared_on_its_twin(
    parallel: str, rank: Rank, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(entry, "_MOST_WHOLE_BYTES", 1000)
    model_of(tmp_path, **FAMILIES["llama"])  # its head is its table, which sharding has to keep
    chosen = {"parallel": parallel, "ranks": 1, "compared_steps": 2}
    asked = spec_of(training("torch-parallel", str(tmp_path / "config.json"), options=chosen, global_batch=2))
    told = rank.obey({"order": "open", "spec": asked.to_dict()})
    found = against_one_process([told], "fp32")
    assert (found.code, found.numbers["twin_layers"], found.numbers["layers"]) == ("one-process-equal", 2, 4)
    assert "those of one process, on a twin of the model with 2 of its 4 layers:" in sentence_of(found)
    if parallel == "ddp":
        held = sum(parameter.nbytes for parameter in rank._training.model.parameters())
        assert told["compared"]["together"]["exchanged_bytes"] == held, "of the run's own model"


def test_one_process_takes_one_ranks_rows_at_a_time_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    # Four ranks with 2 rows each, in two microbatches of a step: 8 shares of 2 rows where 2 of 8 were.
    rows: list[int] = []

    def loss_of(model: Any, inputs: Any, targets: Any) -> Any:
        rows.append(len(inputs))
        return model(inputs).square().mean()

    drawn = [(torch.ones(8, 4) * number, torch.ones(8)) for number in (1, 2)]
    batches = SimpleNamespace(next=lambda: drawn.pop(0), close=lambda: None)
    subject: Any = SimpleNamespace(
        accumulate=2, microbatch=2, asked=SimpleNamespace(data=4), workload=SimpleNamespace(learning_rate=0.1),
        whole_model=lambda: torch.nn.Linear(4, 1, bias=False), all_batches=lambda: batches, loss_of=loss_of,
    )  # fmt: skip
    said: list[str] = []
    monkeypatch.setattr(one_process.dist, "barrier", lambda: said.append("all wait"))
    monkeypatch.setattr(one_process.dist, "get_rank", lambda: 0)
    told = one_process.alone(subject, 1, said.append)
    assert rows == [2] * 8
    assert said.count("all wait") == 1 + 8, "nobody waits longer than one share takes"
    assert said.count("comparing with one process: step 1 of 1") == 8
    assert len(told["losses"]) == 1
