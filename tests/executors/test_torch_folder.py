"""Training data in files: what is read, what is refused, and that the wait for it is seen."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from material import measured, quiet, spec_of, training

pytest.importorskip("torch")
pytestmark = pytest.mark.torch

from twinlens.diagnosis.diagnosis import diagnose_run  # noqa: E402
from twinlens.errors import BadInput  # noqa: E402
from twinlens.executors.in_process import shards  # noqa: E402
from twinlens.executors.torch.model.data import FolderBatches  # noqa: E402
from twinlens.executors.torch.train import TorchTrainer  # noqa: E402
from twinlens.reporting.point_name import point_names  # noqa: E402
from twinlens.reporting.wording.finding import sentence_of  # noqa: E402
from twinlens.stats.run_summary import summarise  # noqa: E402
from twinlens.stats.summary.group import group  # noqa: E402


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TWINLENS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(shards, "_MADE_TOKENS", 1 << 16)


def folder(**fields: Any) -> dict[str, Any]:
    return {"kind": "folder", "files": 32} | fields


def opened(model: str, data: dict[str, Any]) -> tuple[TorchTrainer, Any]:
    trainer = TorchTrainer()
    return trainer, trainer.open(spec_of(training(model=model, data=data)), quiet)


def first_inputs(model: str, data: dict[str, Any], count: int = 3) -> list[Any]:
    trainer, _ = opened(model, data)
    try:
        return [trainer.batches.next()[0].clone() for _ in range(count)]
    finally:
        trainer.close()


@pytest.mark.parametrize("model", ["tiny", "resnet-tiny"])
def test_a_run_reads_its_data_from_files_and_says_which(model: str, tmp_path: Path) -> None:
    run = measured(tmp_path, training(model=model, data=folder()))
    found = next(f for f in summarise(run).findings if f.code == "data-from-files")
    assert run.state == "finished"
    assert min(run.table.column("data_ns").to_pylist()) > 0
    assert found.numbers["files"] == (1 if model == "tiny" else 32)
    assert found.numbers["origin"] == "made"
    if model == "tiny":
        assert found.numbers["step_bytes"] == 4 * (32 + 1) * 2, "batch × (sequence and its last target) × 16 bits"
    fact = run.facts.executor.facts["workload.data_hash"] if run.facts else None
    assert fact is not None
    assert fact.value["data"]["sha256"] == found.numbers["sha256"]
    assert "were in the page cache" in sentence_of(found)


def test_points_of_several_numbers_of_workers_are_called_by_them(tmp_path: Path) -> None:
    runs = [measured(tmp_path / str(n), training(data=folder(workers=n))) for n in (0, 1)]
    assert point_names(group(map(summarise, runs))) == ("fp32 · workers 0", "fp32 · workers 1")


def test_workers_give_the_batches_that_the_loop_itself_would() -> None:
    alone, ahead = first_inputs("resnet-tiny", folder()), first_inputs("resnet-tiny", folder(workers=1))
    assert all((a == b).all() for a, b in zip(alone, ahead, strict=True))
    assert not (alone[0] == alone[1]).all()


def test_a_folder_is_made_once_and_its_hash_is_that_of_its_bytes(tmp_path: Path) -> None:
    _, first = opened("tiny", folder())
    made = next((tmp_path / "cache").rglob("tokens-0.bin"))
    before = made.stat().st_mtime_ns
    _, again = opened("tiny", folder())
    assert made.stat().st_mtime_ns == before
    with made.open("r+b") as changed:
        changed.write(b"\x01\x00")
    _, other = opened("tiny", folder())
    digests = [facts.findings[-1].numbers["sha256"] for facts in (first, again, other)]
    assert digests[0] == digests[1] != digests[2]


def test_what_is_held_out_is_never_trained_on(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.r_[np.zeros(1500), np.ones(100)].astype(np.uint16))
    trainer, _ = opened("tiny", folder(path=str(tmp_path)))
    trained = [trainer.batches.next() for _ in range(200)]
    held_out = [trainer.batches.held_out(i) for i in range(3)]
    trainer.close()
    assert not any(part.any() for pair in trained for part in pair)
    assert all(part.all() for pair in held_out for part in pair)


def test_a_folder_of_classes_gives_their_labels(tmp_path: Path) -> None:
    for label, level in enumerate((0, 255)):
        place = tmp_path / f"class-{label}"
        place.mkdir()
        for i in range(20):
            np.savez_compressed(place / f"{i}.npz", image=np.full((40, 50, 3), level, np.uint8))
    trainer, _ = opened("resnet-tiny", folder(path=str(tmp_path)))
    for _ in range(5):
        pixels, labels = trainer.batches.next()
        assert (pixels.mean((1, 2, 3)) == 2.0 * labels - 1).all()
    trainer.close()


@pytest.mark.parametrize(
    ("model", "files", "why"),
    [
        ("tiny", {}, "holds none of"),
        ("resnet-tiny", {"a.bin": np.zeros(9, np.uint16)}, "holds none of"),
        ("tiny", {"a.bin": np.zeros(40, np.uint16)}, "too short for sequences of 32 tokens"),
        ("tiny", {"a.bin": np.full(4000, 60000, np.uint16)}, "outside the model's vocabulary"),
        ("tiny", {"a.npy": np.zeros(5, np.uint8)}, "is no file of tokens"),
    ],
)
def test_a_folder_that_cannot_be_read_is_refused(
    model: str, files: dict[str, np.ndarray], why: str, tmp_path: Path
) -> None:
    place = tmp_path / "mine"
    place.mkdir()
    for name, numbers in files.items():
        numbers.tofile(place / name)
    with pytest.raises(BadInput, match=why):
        opened(model, folder(path=str(place)))


def test_jpeg_without_pillow_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "PIL", None)
    with pytest.raises(BadInput, match=r"pip install 'twinlens\[images\]'"):
        opened("resnet-tiny", folder(encoding="jpeg"))


def test_cold_pages_are_dropped_once_before_the_first_row(monkeypatch: pytest.MonkeyPatch) -> None:
    dropped: list[int] = []
    monkeypatch.setattr("twinlens.executors.torch.model.data.drop_pages", lambda files: not dropped.append(len(files)))
    trainer, facts = opened("tiny", folder(pages="cold"))
    assert not dropped, "evidence has been taken, and no row yet"
    for _ in range(3):
        trainer.step()
    trainer.close()
    assert dropped == [1]
    assert "were dropped from the page cache before the first row" in sentence_of(facts.findings[-1])


def test_a_step_that_decodes_many_images_waits_for_data_and_the_diagnosis_says_so(tmp_path: Path) -> None:
    run = measured(tmp_path, training(model="resnet-tiny", data=folder(), global_batch=32, protocol={"min_rows": 12}))
    assert summarise(run).metrics["data_share"].value > 0.05
    findings = diagnose_run(run, summarise(run)).findings
    assert any(finding.code == "time-waiting" and finding.subject == "data" for finding in findings)


def test_workers_are_gone_when_the_trainer_is_closed() -> None:
    import psutil

    trainer, _ = opened("resnet-tiny", folder(workers=2))
    before = {child.pid for child in psutil.Process().children()}
    trainer.batches.next()
    started = {child.pid for child in psutil.Process().children()} - before
    assert len(started) == 2
    assert isinstance(trainer.batches, FolderBatches)
    trainer.close()
    assert not started & {child.pid for child in psutil.Process().children() if child.status() != "zombie"}
