"""Points whose runtime is not installed: refused, or on record with the reason, as the spec asks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from material import inference, study_of
from twinlens.errors import BadInput
from twinlens.executors import fake, registry
from twinlens.measurement.preflight.check import checked_study
from twinlens.measurement.study import measure_study
from twinlens.measurement.summary_file import summary_of
from twinlens.record.run import Runs
from twinlens.record.store import find_runs
from twinlens.reporting.document.markdown import markdown
from twinlens.reporting.document.terminal import screen
from twinlens.reporting.run.points import runs_document
from twinlens.reporting.text.fitted import plain
from twinlens.reporting.view import view

_REASON = "absent-engine is not installed: pip install absent-engine"


@pytest.fixture
def absent(monkeypatch: pytest.MonkeyPatch) -> None:
    """An executor `absent-engine` whose packages nobody has."""
    real = registry.executor
    can = replace(fake.EXECUTOR.capabilities, packages=("no-such-package",), install="pip install absent-engine")
    missing = replace(fake.EXECUTOR, capabilities=can)

    def known(kind: str) -> registry.Executor:
        return missing if kind == "absent-engine" else real(kind)

    entries = registry._entries()
    monkeypatch.setattr(registry, "executor", known)
    monkeypatch.setattr(registry, "_entries", lambda: entries | {"absent-engine": entries["fake"]})


def ladder(not_installed: str, kinds: tuple[str, ...] = ("fake", "absent-engine")) -> dict[str, object]:
    variants = [{"executor.kind": kind, "precision": ["fp32", "bf16"]} for kind in kinds]
    return inference("fake", variants=variants, protocol={"not_installed": not_installed, "repeats": 2})


@pytest.mark.usefixtures("absent")
def test_points_of_a_runtime_that_is_not_installed_go_on_record_with_the_reason(tmp_path: Path) -> None:
    outcome = measure_study(study_of(ladder("leave-out")), tmp_path)
    states = [(run.spec.executor.kind, run.state, run.error) for run in outcome.runs]
    assert states.count(("absent-engine", "failed", _REASON)) == 4
    assert sum(state[:2] == ("fake", "finished") for state in states) == 4
    assert outcome.failures == (), "the study itself has ended well"
    again = Runs.of(find_runs(outcome.folder))
    assert len(again) == 8


@pytest.mark.usefixtures("absent")
def test_a_study_that_leaves_out_is_not_measured_again_for_what_is_not_installed(tmp_path: Path) -> None:
    study = study_of(ladder("leave-out"))
    first = measure_study(study, tmp_path, shown=False)
    second = measure_study(study, tmp_path, shown=False)
    assert (second.folder, len(second.runs)) == (first.folder, 8)


@pytest.mark.usefixtures("absent")
def test_check_says_which_points_are_left_out(tmp_path: Path) -> None:
    check = checked_study(study_of(ladder("leave-out")))
    assert (check.lacking, check.refusal) == ((_REASON,), None)


@pytest.mark.usefixtures("absent")
@pytest.mark.parametrize("kinds", [("absent-engine",), ("fake", "absent-engine")], ids=" and ".join)
def test_check_and_measure_refuse_what_is_not_installed_and_leave_no_folder(
    kinds: tuple[str, ...], tmp_path: Path
) -> None:
    study = study_of(ladder("refuse", kinds))
    assert str(checked_study(study).refusal) == _REASON
    with pytest.raises(BadInput, match="absent-engine is not installed"):
        measure_study(study, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_wrong_option_is_named_before_a_runtime_that_is_not_installed() -> None:
    refusal = checked_study(
        study_of(inference("sglang", executor={"kind": "sglang", "options": {"grpah": "x"}}))
    ).refusal
    assert "grpah" in str(refusal)


@pytest.mark.usefixtures("absent")
def test_a_study_with_nothing_that_is_installed_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="absent-engine is not installed") as caught:
        measure_study(study_of(ladder("leave-out", ("absent-engine",))), tmp_path)
    assert caught.value.code == "TL207"
    assert list(tmp_path.iterdir()) == []


def test_a_server_that_its_python_lacks_is_found_before_anything_starts() -> None:
    wanted = {"executor.kind": "sglang", "executor.device": "cuda"}
    asked = inference("fake", variants=[{}, wanted], protocol={"not_installed": "leave-out"})
    (sentence,) = checked_study(study_of(asked)).lacking
    assert "has no sglang, which sglang needs" in sentence


@pytest.mark.usefixtures("absent")
def test_what_was_left_out_is_said_and_has_no_row_in_a_table(tmp_path: Path) -> None:
    outcome = measure_study(study_of(ladder("leave-out")), tmp_path)
    material = [(run, summary_of(run)) for run in outcome.runs]
    shown = plain(screen(runs_document(material), whole=True))
    assert f"not measured: {_REASON}" in " ".join(shown.split())
    assert "2 points" in " ".join(shown.split())
    assert "unfinished" not in shown
    page = view(material)
    assert [entry.name for lens in page.lenses for entry in lens.entries] == ["fp32", "bf16"]
    assert f"not measured: {_REASON}" in page.notes
    assert _REASON in markdown(runs_document(material))
