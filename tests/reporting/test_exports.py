"""Runs in the forms that other tools read: CSV, Parquet, and Markdown for an issue."""

from __future__ import annotations

import csv
import re
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from click.testing import CliRunner

from report_material import Pair, training_run
from served_material import served_run
from twinlens.cli.main import app
from twinlens.reporting.document.markdown import markdown
from twinlens.reporting.run.points import runs_document
from twinlens.reporting.tidy import COLUMNS, as_csv, tidy_rows


def in_markdown(pairs: list[Pair]) -> str:
    return markdown(runs_document(pairs), head=False)


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> list[Pair]:
    parent = Path(tmp_path_factory.mktemp("study"))
    return [training_run(parent, regime, rows=40) for regime in ("fp32", "bf16")]


def call(*words: object) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, [str(word) for word in words])
    return done.exit_code, done.stdout, done.stderr


def test_csv_has_a_line_for_each_run_and_metric_with_values_that_are_not_rounded(pairs: list[Pair]) -> None:
    summaries = [summary for _, summary in pairs]
    lines = list(csv.DictReader(StringIO(as_csv(tidy_rows(summaries)))))
    assert tuple(lines[0]) == COLUMNS
    assert len(lines) == sum(len(one.metrics) for one in summaries)
    line = next(one for one in lines if one["metric"] == "training_tokens_per_s")
    assert float(line["value"]) == summaries[0].metrics["training_tokens_per_s"].value
    absent = next(one for one in lines if one["metric"] == "energy_per_token_j")
    assert (absent["value"], absent["reason"]) == ("", "no readable energy counter on this host")


def test_show_writes_csv_to_stdout_and_nothing_else(pairs: list[Pair]) -> None:
    code, out, err = call("show", pairs[0][0].folder, "--csv")
    assert (code, err) == (0, "")
    assert out.splitlines()[0] == ",".join(COLUMNS)


def test_show_writes_the_rows_of_runs_as_parquet(pairs: list[Pair], tmp_path: Path) -> None:
    from pyarrow import parquet

    code, out, err = call("show", pairs[0][0].folder, pairs[1][0].folder, "--parquet", tmp_path / "rows.parquet")
    assert (code, out) == (0, "")
    assert "rows.parquet" in err
    table = parquet.read_table(tmp_path / "rows.parquet")
    assert table.num_rows == sum(run.table.num_rows for run, _ in pairs)
    assert set(table.column("run").to_pylist()) == {run.id for run, _ in pairs}


def test_a_parquet_file_in_no_folder_is_refused(pairs: list[Pair], tmp_path: Path) -> None:
    code, _, err = call("show", pairs[0][0].folder, "--parquet", tmp_path / "none" / "rows.parquet")
    assert code == 2
    assert "there is no folder" in err


def test_two_forms_at_once_are_refused(pairs: list[Pair]) -> None:
    code, _, err = call("show", pairs[0][0].folder, "--csv", "--markdown")
    assert code == 2
    assert "--csv and --markdown are two forms of the same runs" in err


def test_markdown_of_several_has_verdict_table_facts_and_the_method_folded(pairs: list[Pair]) -> None:
    text = in_markdown(pairs)
    assert text.startswith("**All 2 points are provisional.**")
    assert "| point | tokens/s " in text
    rows = [line for line in text.splitlines() if line.startswith("| &#126; ")]
    assert [row.split()[2] for row in rows] == ["fp32", "bf16"]
    widths = {line.count(" | ") for line in text.splitlines() if line.startswith("|")}
    assert len(widths) == 1, "every line has as many cells"
    assert text.count("<details>") == text.count("</details>") == 1
    assert "batch 8 × 256 tokens" in text[text.index("<details>") :]


def test_markdown_of_one_run_has_its_figures(tmp_path: Path) -> None:
    text = in_markdown([served_run(tmp_path, 4.0, seconds=20.0)])
    assert re.search(r"\| TTFT \| [\d.]+ ms ", text)
    assert "serving: 4 requests/s, poisson" in text
    assert "<details><summary>Every metric, and how it was computed</summary>" in text


def test_foreign_words_are_only_text_in_markdown(pairs: list[Pair]) -> None:
    run, summary = pairs[0]
    hostile = replace(summary, model="@somebody <script> [x](http://evil) | #1 `rm`")
    text = in_markdown([(run, hostile)])
    for part in ("@somebody", "<script>", "[x](", "`rm`", " #1"):
        assert part not in text
    assert "somebody" in text


def test_show_prints_markdown(pairs: list[Pair]) -> None:
    code, out, err = call("show", pairs[0][0].folder, "--markdown")
    assert (code, err) == (0, "")
    assert out == in_markdown([pairs[0]])
