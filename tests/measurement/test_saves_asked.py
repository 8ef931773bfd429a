"""Saves and kills as a spec asks for them."""

from pathlib import Path

import pytest

from twinlens.errors import BadInput
from twinlens.measurement.preflight.refuse import refuse_saves
from twinlens.spec.study import RunSpec


def asked(kind: str = "torch-parallel", *, save: dict[str, object] | None = None, **protocol: object) -> RunSpec:
    workload = {"kind": "training", "model": "demo-34m", "global_batch": 4, "checkpoint": save}
    return RunSpec.model_validate({"executor": {"kind": kind}, "workload": workload, "protocol": protocol})


def test_saves_and_a_kill_that_can_be_are_not_refused(tmp_path: Path) -> None:
    refuse_saves(asked(save={"every_steps": 5, "folder": str(tmp_path)}, kill={"at_step": 7, "rank": 1}))


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        (asked("fake", save={"every_steps": 5}), "fake does not save"),
        (asked("torch", save={"every_steps": 5}, kill={"at_step": 7}), "torch has none to start again"),
        (asked(kill={"at_step": 7}), "add workload.checkpoint.every_steps"),
        (asked(save={"every_steps": 5}, kill={"at_step": 7, "rank": 2}), "rank 2 is none of 2 ranks"),
        (asked(save={"every_steps": 5}, pairing="slices"), "no place in turns"),
        (asked(save={"every_steps": 5, "folder": "/no/such/folder"}), "is no folder"),
    ],
)
def test_what_cannot_be_is_refused_in_a_sentence(spec: RunSpec, words: str) -> None:
    with pytest.raises(BadInput, match=words) as found:
        refuse_saves(spec)
    assert found.value.code == "TL202"


def test_two_saves_that_do_not_fit_are_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda _: type("Usage", (), {"free": 10**6})())
    with pytest.raises(BadInput, match=r"two saves need .* MiB, and .* has .* free"):
        refuse_saves(asked(save={"every_steps": 5, "folder": str(tmp_path)}))
