"""Weights of a folder in training on several ranks: read by one of them, and held by none whole that needs a part."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytestmark = pytest.mark.torch
torch = pytest.importorskip("torch")

import torch.distributed as dist  # noqa: E402
from test_torch_without_memory import Live, model_of  # noqa: E402

from material import quiet, spec_of, training  # noqa: E402
from twinlens.executors.torch.model import without_memory  # noqa: E402
from twinlens.executors.torch.model.build import build_model  # noqa: E402
from twinlens.executors.torch.parallel.options import ParallelOptions  # noqa: E402
from twinlens.executors.torch.parallel.training import RankTraining  # noqa: E402
from twinlens.spec.model.any_model import any_model  # noqa: E402

CPU = torch.device("cpu")
WAYS = ("ddp", "fsdp2", "tp", "pp")


def _rank(rank: int, folder: str, store: str) -> dict[str, Any]:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
    told: dict[str, Any] = {}
    for parallel in WAYS:
        reads: list[str] = []

        def counted(ref: Any, *given: Any, reads: list[str] = reads, **named: Any) -> Any:
            reads += [ref.folder] if ref.folder else []
            return build_model(ref, *given, **named)

        without_memory.build_model = counted
        options = {"parallel": parallel, "ranks": 2, "compared_steps": 0}
        spec = spec_of(training("torch-parallel", folder, options=options, global_batch=4))
        plain = spec.model_copy(update={"executor": spec.executor.model_copy(update={"options": {}})})
        with Live() as live:
            made = RankTraining(plain, ParallelOptions.of(options), CPU, say=quiet)
        made.batches.close()
        drawn_next = torch.rand(1).item()
        held = [each.full_tensor() if hasattr(each, "full_tensor") else each for each in made.model.parameters()]
        of_files = {name: [_as(each) for each in held].count(_as(each)) for name, each in _stored(folder).items()}
        told[parallel] = {"reads": len(reads), "most": live.most, "next": drawn_next, "found": of_files}
        del made
    dist.destroy_process_group()
    return told


def _as(weights: Any) -> tuple[Any, ...]:
    return (*weights.shape, weights.double().sum().item(), weights.flatten()[1].item())


def _stored(folder: str) -> dict[str, Any]:
    from safetensors.torch import load_file

    return {name: each for file in Path(folder).glob("*.safetensors") for name, each in load_file(file).items()}


def test_a_rank_that_is_not_the_first_reads_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ref = model_of(tmp_path, model_type="llama", tie_word_embeddings=True)
    sent: list[Any] = []
    world = SimpleNamespace(is_initialized=lambda: True, get_world_size=lambda: 2)
    monkeypatch.setattr(without_memory, "dist", world)

    def given(rank: int, broadcast: Any) -> dict[str, Any]:
        world.get_rank, world.broadcast = lambda: rank, broadcast
        bare, recipe = without_memory.bare_model(any_model(str(tmp_path / "folder")), "sdpa", 7, CPU)
        if rank:
            (tmp_path / "folder" / "model.safetensors").unlink()
        without_memory.fill(bare, recipe, quiet)
        return dict(bare.named_parameters())

    build_model(ref, "sdpa", 3, CPU).save_pretrained(tmp_path / "folder")
    first = given(0, lambda value, of: sent.append(value.clone()))
    second = given(1, lambda value, of: value.copy_(sent.pop(0)))
    assert sent == [], "as many were sent as were taken"
    assert all(torch.equal(first[name], value) for name, value in second.items())


@pytest.mark.slow
def test_one_of_all_ranks_reads_a_folder_and_each_has_its_part_of_it(tmp_path: Path) -> None:
    ref = model_of(tmp_path, model_type="llama", num_hidden_layers=6, tie_word_embeddings=False)
    saved = build_model(ref, "sdpa", 3, CPU)
    with torch.no_grad():
        for each in saved.parameters():
            each.add_(0.01 * torch.randn_like(each))  # no two alike, norms too
    saved.save_pretrained(tmp_path / "folder")
    folder = str(tmp_path / "folder")
    with ProcessPoolExecutor(2, get_context("spawn")) as ranks:
        told = list(ranks.map(_rank, (0, 1), (folder, folder), [str(tmp_path / "store")] * 2, timeout=300))
    stored = _stored(folder)
    whole, largest = (how(each.nbytes for each in stored.values()) for how in (sum, max))
    for parallel in WAYS:
        first, second = told[0][parallel], told[1][parallel]
        assert (first["reads"], second["reads"]) == (1, 0), parallel
        assert first["next"] == second["next"], "both go on with the same generator"
        has_all = {name: first["found"][name] + second["found"][name] for name in stored}
        assert set(has_all.values()) == ({1} if parallel == "pp" else {2}), parallel
        if parallel != "ddp":
            assert second["most"] < whole / 2 + 4 * largest, parallel
