"""Two machines in one report never mix, a run given twice counts once, and a server that was up has its own name."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from report_material import Pair, training_run, whole_text
from served_material import served_run
from twinlens.record.codec import encode
from twinlens.record.executor.record import declared
from twinlens.record.store import read_run
from twinlens.reporting.chart.all import charts
from twinlens.reporting.report.executor import machine_lines, stack
from twinlens.reporting.report.page import render
from twinlens.reporting.text.sentence import reference_of, sentences
from twinlens.reporting.view import view
from twinlens.stats.run_summary import summarise
from twinlens.stats.summary.group import group

OTHER = "Intel Xeon 6980P"


def moved(pair: Pair, product: str = OTHER, **facts: str) -> Pair:
    """The same rows as if they were taken on another machine."""
    record = pair[0].folder / "run.json"
    data = json.loads(record.read_text())
    for name in ("accelerator.product", "host.cpu.model"):
        data["facts"]["executor"][name]["value"] = product
    for name, value in facts.items():
        data["facts"]["executor"][name.replace("__", ".")]["value"] = value
    record.write_text(json.dumps(data))
    run = read_run(pair[0].folder)
    return run, summarise(run)


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> list[Pair]:
    """Both precisions on each of two machines; on the second everything is steady too."""
    folder = tmp_path_factory.mktemp("two")
    here = [training_run(folder, regime, repeat) for repeat in range(3) for regime in ("fp32", "bf16")]
    there = [moved(training_run(folder, regime, repeat)) for repeat in range(3) for regime in ("fp32", "bf16")]
    return [*here, *there]


def test_each_machine_has_its_own_groups_tables_and_charts(two: list[Pair]) -> None:
    report = view(two)
    (lens,) = report.lenses
    assert [entry.name for entry in lens.entries] == [
        "machine A · fp32", "machine A · bf16", "machine B · fp32", "machine B · bf16",
    ]  # fmt: skip
    assert [len(part) for part in lens.parts] == [2, 2]
    assert all(len(entry.group.runs) == 3 for entry in lens.entries)
    assert len(charts(lens)) == 2, "bars of two machines never stand on each other"
    text = whole_text(lens.groups)
    titles = [line for line in text.splitlines() if line.startswith("Training · ")]
    assert titles == [
        "Training · demo-34m · A: AMD EPYC 9654 96-Core Processor, 2 processors",
        f"Training · demo-34m · B: {OTHER}, 2 processors",
    ]


def test_a_factor_is_never_of_one_machine_over_another(two: list[Pair]) -> None:
    groups = view(two).groups("training")
    for one in groups:
        reference = reference_of(one, groups)
        assert reference is None or reference.machine == one.machine
    alone = [one for one in groups if (one.tag, one.point["precision"]) in (("A", "fp32"), ("B", "bf16"))]
    assert "×" not in sentences(alone, ())[0]


def test_a_factor_is_never_of_one_framework_over_another(tmp_path: Path) -> None:
    newer = {"software__framework__version": "2.99.0"}
    pairs = [training_run(tmp_path, "fp32"), moved(training_run(tmp_path, "bf16"), "AMD EPYC 9654 96-Core Processor",
                                                    **newer)]  # fmt: skip
    groups = view(pairs).groups("training")
    assert {one.tag for one in groups} == {""}, "it is one machine"
    assert all(reference_of(one, groups) is None for one in groups)


def test_ranks_and_one_process_on_one_node_ran_on_one_machine(tmp_path: Path) -> None:
    """Ranks say how many nodes they had and what their messages took; a process without ranks says neither."""

    def on_ranks(pair: Pair, nodes: int) -> Pair:
        record = pair[0].folder / "run.json"
        data = json.loads(record.read_text())
        like = data["facts"]["executor"]["host.cpu.model"]
        for name, value in {"interconnect.node_count": nodes, "interconnect.collectives": "gloo"}.items():
            data["facts"]["executor"][name] = {**like, "value": value}
        record.write_text(json.dumps(data))
        run = read_run(pair[0].folder)
        return run, summarise(run)

    alone, ranks, nodes = training_run(tmp_path, "fp32"), training_run(tmp_path, "bf16"), training_run(tmp_path, "fp32")
    pairs = [alone, on_ranks(ranks, 1), on_ranks(nodes, 2)]
    assert [run.facts.executor.value("interconnect.node_count") for run, _ in pairs if run.facts] == [None, 1, 2]
    one, other, apart = (summary.machine for _, summary in pairs)
    assert one is not None
    assert other is not None
    assert apart is not None
    assert one.id == other.id
    assert one.id != apart.id, "two nodes are not one"


def test_two_stacks_on_one_machine_have_two_names(tmp_path: Path) -> None:
    newer = {"software__framework__version": "2.99.0"}
    pairs = [training_run(tmp_path, "fp32"), moved(training_run(tmp_path, "fp32"), "AMD EPYC 9654 96-Core Processor",
                                                    **newer)]  # fmt: skip
    names = [entry.name for entry in view(pairs).lenses[0].entries]
    assert len(set(names)) == 2
    assert "2.99.0" in names[1]


def test_the_header_names_every_machine_and_shared_is_only_what_is_shared(two: list[Pair]) -> None:
    report = view(two)
    lines = machine_lines(report)
    assert [line[:2] for line in lines] == ["A:", "B:"]
    assert "AMD EPYC" in lines[0]
    assert OTHER in lines[1]
    facts = stack(report)
    assert "processor" not in {line.label for line in facts.shared}
    assert "processor" in {row.label for row in facts.varying}
    page = render(report)
    assert "no ratio is made across them" in page
    text = " ".join(whole_text([entry.group for lens in report.lenses for entry in lens.entries]).split())
    assert f"B: {OTHER}, 2 processors" in text


def test_a_run_given_twice_counts_once_and_the_report_says_so(tmp_path: Path) -> None:
    pairs = [training_run(tmp_path / "study", "fp32", repeat) for repeat in range(3)]
    shutil.copytree(tmp_path / "study", tmp_path / "copy")
    copies = [read_run(tmp_path / "copy" / run.folder.name) for run, _ in pairs]
    again = [(run, summarise(run)) for run in copies]
    (once,) = group(summary for _, summary in pairs)
    (both,) = group(summary for _, summary in [*pairs, *again])
    assert both.metrics == once.metrics, "no interval is narrower for a copy"
    report = view([*pairs, *again])
    assert len(report.material) == 3
    assert report.notes[0].startswith("3 runs were given more than once")


def test_a_finished_copy_stands_for_an_unfinished_one(tmp_path: Path) -> None:
    run, whole = training_run(tmp_path, "fp32")
    half = summarise(read_run(run.folder))
    from dataclasses import replace

    (one,) = group([replace(half, state="running"), whole])
    assert [found.state for found in one.runs] == ["finished"]


def test_a_server_that_was_up_is_titled_with_its_own_model_and_address(tmp_path: Path) -> None:
    said = {
        "model.id": encode(declared("Qwen/Qwen3-8B", "/v1/models")),
        "precision.weights": encode(declared("bfloat16", "/server_info")),
    }
    pair = served_run(tmp_path, 4, "fp32", seconds=20, said=said)
    report = view([pair])
    text = whole_text(report.groups("inference"))
    title = next(line for line in text.splitlines() if line.startswith("Inference · "))
    assert "Inference · Qwen/Qwen3-8B · served at a rate (open loop)" in title
    assert "http://127.0.0.1:8000/v1" in text
    assert "small" not in text
    assert "fp32" not in text, "nobody declared it"
    assert report.lenses[0].entries[0].precision == "as-served"
    page = render(report).partition('id="executor"')[0]
    assert "Qwen/Qwen3-8B at http://127.0.0.1:8000/v1" in page
    assert "<h3>Qwen/Qwen3-8B · served at a rate (open loop) · " in page


def test_a_precision_that_the_spec_names_for_a_server_stays(tmp_path: Path) -> None:
    assert view([served_run(tmp_path, 4, "bf16", seconds=20)]).lenses[0].entries[0].precision == "bf16"


def test_each_machine_has_its_own_sentence(two: list[Pair]) -> None:
    said = sentences(view(two).groups("training"), ())[0]
    first, second = said.split("On machine B: ")
    assert "On machine A: bf16 sustains" in first
    assert second.startswith("bf16 sustains")
