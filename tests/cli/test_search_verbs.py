"""A search from the command line: asked for in short, shown, stored, reported, and gone on with."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import twinlens as tl
from material import inference, study_of
from twinlens.cli.main import app
from twinlens.record.codec import decode
from twinlens.record.finding import Finding
from twinlens.reporting.wording.finding import clause_of
from twinlens.spec.load import dump

RATES = ["--at", "rate_per_s=search", "--set", "search.start=20", "--set", "search.most_points=4"]


@pytest.fixture(scope="module")
def spec(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A queue of known capacity, a hundred a second, and three rates that a search replaces."""
    data = inference(
        "fake", arrival={"kind": "poisson"}, slo={"e2e_latency_s": 0.05, "quantile": 0.9},
        options={"a_s": 0.005, "b_s": 0.0, "c_s": 0.001, "d_s": 0.0}, sweep={"rate_per_s": [10, 20, 40]},
        point={"admission": "continuous", "in_flight": 1}, protocol={"duration_s": 240.0, "telemetry_s": 600.0},
    )  # fmt: skip
    path = tmp_path_factory.mktemp("spec") / "queue.toml"
    path.write_text(dump(study_of(data)))
    return path


@pytest.fixture(scope="module")
def searched(spec: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, str]:
    """The folder of a search, and what it said on stdout and stderr."""
    out = tmp_path_factory.mktemp("out")
    result = CliRunner().invoke(app, ["measure", str(spec), *RATES, "--out", str(out)])
    assert result.exit_code == 0, result.stderr
    (folder,) = out.iterdir()
    return folder, result.stdout, result.stderr


def test_measure_searches_and_shows_the_interval_with_every_run(searched: tuple[Path, str, str]) -> None:
    folder, said, progress = searched
    found = json.loads((folder / "search.json").read_text())["found"][0]
    assert len(found["tried"]) == 4
    assert f"[{found['low']:g}, {found['high']:g}) requests/s" in said
    assert clause_of(decode(Finding, found["reason"])) in " ".join(said.split())
    assert max(map(len, said.splitlines())) <= 80
    assert "at 40 requests/s (at least 20 requests/s): measuring" in " ".join(progress.split())


def without_words(data: Any) -> Any:
    """JSON without what findings are given for people: their sentence and advice."""
    if isinstance(data, list):
        return [without_words(value) for value in data]
    if not isinstance(data, dict):
        return data
    is_finding = {"code", "severity", "numbers"} <= set(data)
    return {key: without_words(value) for key, value in data.items() if not (is_finding and key in ("text", "advice"))}


def test_show_prints_the_same_and_json_what_is_on_disk(searched: tuple[Path, str, str]) -> None:
    folder, said, _ = searched
    assert CliRunner().invoke(app, ["show", str(folder)]).stdout == said
    data = json.loads(CliRunner().invoke(app, ["show", str(folder), "--json"]).stdout)
    assert without_words(data["searches"]) == [json.loads((folder / "search.json").read_text())]
    assert {run["run"] for run in data["runs"]} == {one["run"] for one in data["searches"][0]["found"][0]["tried"]}


def test_the_report_of_a_search_shows_it(searched: tuple[Path, str, str], tmp_path: Path) -> None:
    page = tl.report(tl.read(searched[0]), tmp_path / "r.html").read_text()
    assert "Each run of the search." in page
    assert "The highest within the SLO is in" in page
    assert "[search]" in page


def test_a_spec_in_the_report_searches_for_the_same(searched: tuple[Path, str, str], tmp_path: Path) -> None:
    import html
    import re

    page = tl.report(tl.read(searched[0]), tmp_path / "r.html").read_text()
    (block,) = [html.unescape(text) for text in re.findall(r"<pre><code>(.*?)</code></pre>", page, re.DOTALL)]
    (tmp_path / "again.toml").write_text(block)
    again = tl.load(tmp_path / "again.toml")
    asked = tl.load(tmp_path / "again.toml", ["point.rate_per_s=20"]).runs()[0].fingerprint()
    assert again.search is not None
    assert (again.search.start, again.search.most_points) == (20.0, 4)
    assert asked in {run.spec.fingerprint() for run in tl.read(searched[0])}


def test_check_says_how_much_a_search_may_take(spec: Path) -> None:
    result = CliRunner().invoke(app, ["check", str(spec), *RATES])
    assert result.exit_code == 0
    assert "1 search of at most 4 runs, at most about 16.6 min" in result.stdout


def test_the_gate_fails_where_no_rate_is_within_the_slo(spec: Path, tmp_path: Path) -> None:
    settings = ["--set", "workload.slo.e2e_latency_s=0.005", "--set", "search.most_points=1"]
    result = CliRunner().invoke(app, ["measure", str(spec), *RATES, *settings, "--out", str(tmp_path), "--gate", "-q"])
    assert result.exit_code == 1
    assert "no rate within the SLO" in result.stderr


def test_python_searches_by_the_same_verb(spec: Path, tmp_path: Path) -> None:
    study = tl.load(spec, ['search.over="rate_per_s"', "search.start=20", "search.most_points=2"])
    outcome = tl.measure(study, tmp_path)
    assert len(outcome.runs) == 2
    assert (outcome.folder / "search.json").exists()
    assert "at least 40 requests/s" in tl.show(*outcome.runs)
