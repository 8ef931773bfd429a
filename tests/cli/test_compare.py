"""`twinlens compare` on real runs of the fake executor, and on published ones."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from benchmarks.published import published
from click.testing import CliRunner, Result

import twinlens as tl
from material import for_rows, inference, measured, study_of, training
from twinlens.cli.main import app
from twinlens.measurement.study import measure_study
from twinlens.reporting.comparing.comparison import comparison_document
from twinlens.reporting.document.html import html
from twinlens.reporting.tables import lenses_document
from twinlens.spec.load import dump

RESULTS = published()


def call(*words: str | Path) -> Result:
    return CliRunner().invoke(app, ["compare", *map(str, words)])


@pytest.fixture(scope="module")
def studies(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Folders of training studies of three repeats, the second of a stack a tenth slower, and one of inference."""
    out = tmp_path_factory.mktemp("compared")
    protocol = {"repeats": 3} | for_rows(60)
    asked = {
        "before": training("fake", protocol=protocol),
        "slower": training("fake", protocol=protocol, options={"step_s": 0.11}),
        "both": training("fake", protocol=protocol, options={"step_s": 0.11}, point={"precision": "bf16"}),
        "longer": training("fake", protocol=protocol, seq_len=64),
        "served": inference("fake", protocol=protocol),
    }
    return {name: measure_study(study_of(data), out / name).folder for name, data in asked.items()}


def test_one_setting_that_differs_has_the_ratio_attributed_to_it(studies: dict[str, Path]) -> None:
    told = call(studies["before"], studies["slower"])
    assert told.exit_code == 0, told.stderr
    assert told.stdout.startswith("Comparable. tokens/s: B is 0.91× A")
    assert "Only the settings differ (step s not set → 0.11)" in " ".join(told.stdout.split())
    assert told.stdout.count("\n") <= 24


def test_two_things_that_differ_are_qualified(studies: dict[str, Path]) -> None:
    data = json.loads(call(studies["before"], studies["both"], "--json").stdout)
    (found,) = data["comparisons"]
    assert found["verdict"] == "comparable with qualifiers"
    assert [thing["aspect"] for thing in found["things"]] == ["precision", "settings"]
    assert found["findings"][0]["code"] == "several-differ"
    first = found["effects"][0]
    assert first["metric"] == "training_tokens_per_s"
    assert first["ratio"]["value"] == pytest.approx(1 / 1.1, rel=0.05)


def test_another_workload_is_refused_and_a_training_run_against_inference_too(studies: dict[str, Path]) -> None:
    longer, served = (call(studies["before"], studies[name]).stdout for name in ("longer", "served"))
    assert longer.startswith("Not comparable.\n✗ The workload differs: seq len 32 → 64. Measure both with one spec.")
    assert served.startswith("Category error.\n✗ A is a run of training and B is a run of inference.")
    assert "×" not in longer + served


def test_several_folders_are_tables_by_lens_and_never_one_list(studies: dict[str, Path]) -> None:
    told = call(*(studies[name] for name in ("before", "slower", "both"))).stdout
    assert told.startswith("2 comparisons: 1 comparable, 1 comparable with qualifiers.\nTraining\n")


def test_a_run_that_was_cut_says_so_first(studies: dict[str, Path], tmp_path: Path) -> None:
    run = measured(tmp_path, training("fake", protocol=for_rows(60)))
    record = run.folder / "run.json"
    record.write_text(json.dumps(json.loads(record.read_text()) | {"state": "interrupted"}))
    told = call(studies["before"], run.folder).stdout
    assert told.startswith("Not comparable.\n✗ B (")
    assert "is not valid: interrupted" in " ".join(told.split())


@pytest.mark.parametrize("words", [("one",), ("nowhere", "here")])
def test_nothing_to_compare_is_one_sentence(studies: dict[str, Path], words: tuple[str, ...]) -> None:
    told = call(studies["before"]) if words == ("one",) else call(*words)
    assert (told.exit_code, told.stdout) == (2, "")
    assert told.stderr.count("\n") == 1
    assert "Traceback" not in told.stderr


def test_the_api_gives_the_same(studies: dict[str, Path]) -> None:
    (found,) = tl.compare(tl.read(studies["before"]), tl.read(studies["slower"]))
    assert (found.verdict, [thing.aspect for thing in found.things]) == ("comparable", ["settings"])
    with pytest.raises(tl.BadInput) as raised:
        tl.compare()
    assert raised.value.code == "TL225"


def test_published_runs_that_took_turns_are_compared_by_their_slices() -> None:
    told = call(RESULTS / "2026-11-22-neighbour-epyc-2core" / "2026-11-22T095312Z_demo-training_55f4").stdout
    assert told.startswith("Comparable with qualifiers. tokens/s: B is 2.09× A (2.00–2.18×), from slices by")
    assert "is not valid" not in told, "its rates are provisional, and the ratio is of slices"


def test_two_machines_whose_workloads_differ_are_refused_by_what_differs() -> None:
    told = call(*(RESULTS / f"2026-11-22-{name}-2core" for name in ("neighbour-epyc", "paired-xeon"))).stdout
    assert "comparisons: 2 not comparable" in told
    assert "global batch 1 → 2" in told


def test_a_ledger_shows_each_step_and_refuses_another_workload(studies: dict[str, Path]) -> None:
    steps = [studies[name] for name in ("before", "slower", "both")]
    told = call("--ledger", *steps, "--price-per-hour", "3.6", "--per-month", "1e9")
    assert told.exit_code == 0, told.stderr
    assert told.stdout.startswith("All steps together: 0.91× (")
    assert told.stdout.count("\n") <= 24
    data = json.loads(call("--ledger", *steps, "--json").stdout)
    assert [step["before"]["things"][0]["aspect"] for step in data["steps"][1:]] == ["settings", "precision"]
    assert {len(step["figures"]) for step in data["steps"]} == {5}
    other = call("--ledger", studies["before"], studies["longer"])
    assert (other.exit_code, other.stdout) == (2, "")
    assert "a ledger has one workload at one load" in other.stderr


def test_the_published_ledger_has_three_real_steps_with_intervals_of_their_own() -> None:
    study = RESULTS / "2026-11-22-ledger-epyc-2core"
    points = ("fp32,batch=1,graph=eager", "bf16,batch=1,executor.options.graph=eager", "bf16,batch=4,graph=eager")
    steps = [f"{study}@precision={point}" for point in (*points, "bf16,batch=4,graph=compiled")]
    told = call("--ledger", *steps, "--price-per-hour", "2.5", "--per-month", "1e6")
    assert told.stdout.startswith("All steps together: 4.70× (4.59–4.81×) the output tokens/s of the baseline.")
    assert told.stdout.count("\n") <= 24
    for line in ("1.44×  1.40–1.48×", "2.78×  2.70–2.85×", "1.16×  1.14–1.18×"):
        assert line in told.stdout


def test_a_point_of_a_study_is_named_by_its_settings() -> None:
    study = RESULTS / "2026-11-22-neighbour-epyc-2core"
    told = json.loads(call(f"{study}@precision=bf16", f"{study}@precision=fp32", "--json").stdout)["comparisons"][0]
    assert [told[side]["point"]["precision"] for side in "ab"] == ["bf16", "fp32"]
    assert told["effects"][0]["ratio"]["value"] == pytest.approx(1 / 2.09, rel=0.01)
    for wrong, words in (("@precision=int4", "has no point with precision = int4; it has"), ("@bf16", "after @ stand")):
        refused = call(f"{study}{wrong}", study)
        assert refused.exit_code == 2
        assert words in refused.stderr


def test_a_limit_fails_a_pipeline_and_gives_a_table_for_the_pull_request(studies: dict[str, Path]) -> None:
    pair = studies["before"], studies["slower"]
    failed = call(*pair, "--fail-if", "tokens/s -5%", "--markdown")
    assert failed.exit_code == 1
    assert "tokens/s of" in failed.stderr
    assert failed.stdout.startswith("- ❌ tokens/s of")
    assert "| tokens/s | 1,280 | 1,164 | 0.91× |" in failed.stdout
    assert call(*pair, "--fail-if", "tokens/s -20%").exit_code == 0
    refused = call(*pair, "--fail-if", "speed -20%")
    assert (refused.exit_code, refused.stdout) == (2, "")


def test_a_pipeline_is_failed_by_a_point_that_nobody_measured_again(tmp_path: Path) -> None:
    parts = {"protocol": {"repeats": 3} | for_rows(60)}
    before = measure_study(study_of(training("fake", sweep={"precision": ["fp32", "bf16"]}, **parts)), tmp_path / "a")
    after = measure_study(study_of(training("fake", **parts)), tmp_path / "b")
    told = call(before.folder, after.folder, "--fail-if", "tokens/s -20%", "--json")
    assert told.exit_code == 1
    assert "is a point of the baseline, and" in " ".join(told.stderr.split())
    (failure,) = json.loads(told.stdout)["failures"]
    assert (failure["code"], failure["numbers"]["missing"]) == ("limit-unjudged", True)
    (found,) = tl.broken_limits(before.folder, after.folder, limits=["tokens/s -20%"])
    assert found.numbers["name"].endswith("bf16")
    assert call(after.folder, before.folder, "--fail-if", "tokens/s -20%").exit_code == 0  # a new point is no failure
    assert call(f"{before.folder}@precision=fp32", after.folder, "--fail-if", "tokens/s -20%").exit_code == 0


def test_a_limit_of_one_lens_does_not_judge_the_other(tmp_path: Path) -> None:
    parts = {"protocol": {"repeats": 3} | for_rows(60)}
    for name in ("a", "b"):
        for data in (training("fake", **parts), inference("fake", **parts)):
            measure_study(study_of(data), tmp_path / name)
    told = call(tmp_path / "a", tmp_path / "b", "--fail-if", "tokens/s -20%")
    assert told.exit_code == 0, told.stderr


def test_a_page_holds_every_comparison_and_escapes_what_is_foreign(studies: dict[str, Path], tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    assert call(studies["before"], studies["both"], "-o", file).exit_code == 0
    page = file.read_text(encoding="utf-8")
    assert "Comparable with qualifiers." in page
    assert "Fields that differ" in page
    assert "http" not in page.replace("http-equiv", "").replace('xmlns="http://www.w3.org/2000/svg"', "")
    (found,) = tl.compare(tl.read(studies["before"]), tl.read(studies["both"]))
    bad = replace(found, b=replace(found.b, name="<script>alert(1)</script>"))
    assert "<script>" not in html(comparison_document([bad]))
    refused = call(studies["before"], studies["both"], "-o", file / "page.html")
    assert refused.exit_code == 2
    assert "the report cannot be written" in refused.stderr


def test_the_lens_table_has_training_beside_inference_of_the_published_runs() -> None:
    told = call("--table", "lenses", RESULTS / "2026-11-22-neighbour-epyc-2core")
    assert told.exit_code == 0, told.stderr
    assert "bf16 against fp32  ! 2.09× (2.00–2.18×)  ! 1.41× (1.36–1.46×)" in told.stdout
    assert "Good for training demo-34m in fp32; what limits it: compute." in told.stdout
    assert max(map(len, told.stdout.splitlines())) <= 80
    data = json.loads(call("--table", "lenses", RESULTS / "2026-11-22-neighbour-epyc-2core", "--json").stdout)
    assert [row["change"] for row in data["rows"]] == ["bf16 against fp32"]
    assert {fit["fitness"]["code"] for fit in data["fits"]} == {"good-for"}
    assert all(fit["fitness"]["text"] for fit in data["fits"])


def test_the_lens_table_is_a_page_too_and_escapes_what_is_foreign(tmp_path: Path) -> None:
    file = tmp_path / "lenses.html"
    study = RESULTS / "2026-11-22-neighbour-epyc-2core"
    assert call("--table", "lenses", study, "-o", file).exit_code == 0
    page = file.read_text(encoding="utf-8")
    for words in ("2.09× (2.00–2.18×)", "what limits it: compute", "bf16 against fp32, training"):
        assert words in page
    found = tl.table("lenses", study)
    bad = replace(found.rows[0], change="<script>alert(1)</script>")
    assert "<script>" not in html(lenses_document([bad], ()))


def test_a_table_that_is_none_and_runs_that_hold_no_split_are_one_sentence(studies: dict[str, Path]) -> None:
    for words, said in (
        (("--table", "lense", studies["before"]), "did you mean 'lenses'"),
        (("--table", "runtimes", studies["served"]), "there is no served run"),
    ):
        told = call(*words)
        assert told.exit_code == 2
        assert said in " ".join(told.stderr.split())


def test_tables_are_a_verb_too() -> None:
    found = tl.table("lenses", RESULTS / "2026-11-22-neighbour-epyc-2core")
    assert found.rows[0].training is not None
    assert found.shares == ()


def test_repeats_of_one_published_training_point_are_one_model() -> None:
    runs = sorted(RESULTS.glob("2026-11-20-epyc-2core/*training*/*fp32_r*"))[:2]
    (found,) = json.loads(call(*runs, "--json").stdout)["comparisons"]
    weights = next(each for each in found["differences"] if each["field"] == "model.weights_hash")
    assert (weights["role"], weights["aspect"]) == ("Q", "content")
    assert not [each for each in found["findings"] if each["code"] == "must-match"]


def test_a_ledger_with_much_against_it_stays_on_one_screen() -> None:
    (study,) = RESULTS.glob("2026-11-20-epyc-2core/*inference*")
    told = call("--ledger", study)
    assert told.exit_code == 0, told.stderr
    assert told.stdout.count("\n") <= 24
    assert "2 steps from the baseline" in told.stdout


def test_a_pipeline_is_failed_by_a_category_error_with_the_reason(studies: dict[str, Path]) -> None:
    pair = studies["before"], studies["served"]
    assert call(*pair).exit_code == 0
    failed = call(*pair, "--fail-if", "tokens/s -50%")
    assert failed.exit_code == 1
    assert "cannot be said: these runs are not comparable" in " ".join(failed.stderr.split())


def test_a_point_is_chosen_by_what_a_sweep_changes_in_the_workload(tmp_path: Path) -> None:
    file = tmp_path / "swept.toml"
    file.write_text(dump(study_of(training("fake", sweep={"workload.global_batch": [4, 8]}))))
    measured_there = CliRunner().invoke(app, ["measure", str(file), "--out", str(tmp_path / "out"), "-q"])
    assert measured_there.exit_code == 0, measured_there.stderr
    (folder,) = (tmp_path / "out").iterdir()
    for name in ("global_batch", "workload.global_batch"):
        told = call(f"{folder}@{name}=4", f"{folder}@{name}=8")
        assert told.exit_code in (0, 1), told.stderr
        assert "global batch 4 → 8" in " ".join(told.stdout.split())


def test_a_history_goes_on_over_an_update_of_the_machine_and_names_it(tmp_path: Path) -> None:
    """A new kernel, or a new image each night, is the same machine, with another stack."""
    asked = training("fake", protocol={"repeats": 1} | for_rows(60))
    for night in range(2):
        folder = measure_study(study_of(asked), tmp_path / f"night-{night}").folder
        (run,) = folder.glob("*/run.json")
        data = json.loads(run.read_text())
        facts = data["facts"]["executor"]
        for field, value in (("host.kernel", f"6.{night}"), ("host.container_digest", f"sha256:{night}")):
            facts[field] = {"value": value, "capture": "observed", "source": "a test"}
        run.write_text(json.dumps(data))
        (run.parent / "summary.json").unlink()
    (found,) = tl.history(tmp_path)
    assert len(found.entries) == 2
    assert {"host.kernel", "host.container_digest"} <= {edit.difference.field for edit in found.quiet}


def test_a_folder_of_each_lens_is_a_table_of_both() -> None:
    paired = RESULTS / "2026-11-22-neighbour-epyc-2core"
    folders = [next(paired.glob(f"*demo-{lens}*")) for lens in ("training", "inference")]
    told = call("--table", "lenses", *folders)
    assert told.exit_code == 0, told.stderr
    line = next(line for line in told.stdout.splitlines() if line.startswith("bf16 against fp32"))
    assert line.count("×") >= 2


@pytest.mark.parametrize("word", ["4", "4.0", "4/s"])
def test_a_served_point_is_selected_as_it_is_written(word: str) -> None:
    study = published() / "2026-11-22-url-epyc-2core"
    assert len(tl.compare(f"{study}@rate_per_s={word}", f"{study}@rate_per_s=2")) == 1
    with pytest.raises(tl.errors.BadInput, match="has no point with rate_per_s = 44"):
        tl.compare(f"{study}@rate_per_s=44", f"{study}@rate_per_s=2")
