"""The verb tune, whole: searched, proved and shown, on a machine whose truth is known."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import twinlens as tl
from material import called, inference, training
from twinlens.record.finding import Finding
from twinlens.reporting.document.markdown import markdown
from twinlens.reporting.document.terminal import screen
from twinlens.reporting.judging.check import check_document
from twinlens.reporting.judging.tuning import tuning_document
from twinlens.reporting.text.fitted import plain
from twinlens.reporting.wording.finding import clause_of
from twinlens.spec.load import dump, parse
from twinlens.stats.compliance import AnswerTimes, caching
from twinlens.tuning.ledger import FILE, Ledger, Left, Proposed, read_ledger

TUNE: dict[str, Any] = {
    "space": {"step_s": [0.08, 0.1, 0.11], "microbatch": [1, 2]},
    "budget": {"trials": 7, "wall_h": 0.5, "device_h": 0.5}, "in_turns": False, "most_rounds": 4,
    "constraints": [{"metric": "step_s_p90", "at_most": 1.0}],
}  # fmt: skip


def spec(noise: float = 0.01, **tune: Any) -> tl.Study:
    data = training("fake", global_batch=4, seq_len=64)
    data["executor"]["options"] = {"noise": noise, "step_s": 0.1}
    protocol = {"duration_s": 4.0, "steady_s": 1.0, "min_rows": 10, "isolate": False, "repeats": 1, "ceilings": False,
                "retakes": 0, "extend": 0, "slice_s": 0.5}  # fmt: skip
    return parse(data | {"name": "known", "protocol": protocol, "tune": TUNE | tune})


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory) -> tl.TuneResult:
    return tl.tune(spec(), tmp_path_factory.mktemp("tuned"), watch=None, keep_open=True)


def test_the_faster_setting_is_found_proved_and_stated(tuned: tl.TuneResult) -> None:
    assert tuned.settings == {"executor.options.step_s": 0.08}
    proof = tuned.tuning.proof
    assert proof is not None
    assert proof.verdict == "gain"
    assert proof.ratio.low is not None
    assert proof.ratio.high is not None
    assert proof.ratio.low < 0.1 / 0.08 < proof.ratio.high
    assert proof.ratio.n == 5


def test_the_screen_says_it_within_24_lines_of_80_columns(tuned: tl.TuneResult) -> None:
    lines = plain(tuned.screen(), 80).splitlines()
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80
    text = "\n".join(lines)
    assert "A gain: tokens/s +2" in text
    assert "tuned, as searched" in text
    assert "step_s = 0.08" in text


def test_page_and_screen_hold_the_same(tuned: tl.TuneResult) -> None:
    page, markdown = tuned.to_html(), tuned.to_markdown()
    assert "A gain: tokens/s +2" in page
    assert "A gain: tokens/s +2" in markdown
    assert re.search(r"<td[^>]*tone-struck[^>]*>\s*\+2", page)
    assert "~~" in markdown
    for trial in tuned.tuning.standing.trials:
        assert (trial.outcome or "races") in page


def test_json_has_every_trial_and_the_bound(tuned: tl.TuneResult) -> None:
    found = json.loads(json.dumps(tuned.to_json()))
    assert len(found["trials"]) == len(tuned.tuning.standing.trials)
    assert found["terms"]["budget"]["trials"] == 7
    assert found["proof"]["verdict"] == "gain"
    assert found["trials"][0]["margins"][0]["metric"] == "step_s_p90"


def test_elsewhere_is_measured_and_said(tuned: tl.TuneResult) -> None:
    ratios = [each.ratio for each in tuned.tuning.elsewhere]
    assert len(ratios) == 2
    assert all(ratio is not None and ratio.value is not None and ratio.value > 1.1 for ratio in ratios)


def test_its_folder_is_shown_and_read_as_the_same_answer(tuned: tl.TuneResult) -> None:
    assert tl.tuned(tuned.folder).to_json() == tuned.to_json()
    assert tl.show(tuned.folder) == plain(tuned.screen())


def test_runs_of_the_proof_know_their_bound_and_those_of_the_search_are_candidates(tuned: tl.TuneResult) -> None:
    roles: dict[str, set[str]] = {"proof": set(), "search": set()}
    for record in tuned.folder.glob("**/run.json"):
        if "elsewhere" not in record.parts:
            tuned_section = json.loads(record.read_text())["tuned"]
            assert tuned_section["bound"] == tuned.tuning.bound.hash
            roles["proof" if "proof" in record.parts else "search"].add(tuned_section["role"])
    assert roles == {"proof": {"default", "tuned"}, "search": {"candidate"}}


def test_the_two_sides_of_the_proof_may_be_compared(tuned: tl.TuneResult) -> None:
    (study,) = (tuned.folder / "proof").iterdir()
    runs = tl.read(study)
    sides = [tl.Runs.of([run for run in runs if run.sections.tuned.role == role]) for role in ("default", "tuned")]
    (found,) = tl.compare(*sides)
    assert found.verdict.startswith("comparable")


def test_a_winner_whose_server_cheats_has_gained_nothing(tuned: tl.TuneResult) -> None:
    fails = replace(caching(AnswerTimes([0.1] * 20, [0.1] * 20), AnswerTimes([1.0] * 20, [1.0] * 20)), ruling="fail")
    document = tuning_document(replace(tuned.tuning, guards=(fails,)))
    text = plain(screen(document, whole=False), 80)
    assert "The winner fails a guard (caching)" in text
    assert "A gain" not in text
    assert "twinlens measure SPEC" not in text


def test_what_kept_a_ratio_from_being_known_is_said(tuned: tl.TuneResult) -> None:
    proof = tuned.tuning.proof
    assert proof is not None
    unsteady = replace(
        proof,
        verdict="not known",
        because=(Finding("suffers-unequally", "disqualifies", numbers={"calm": 1, "of": 8, "change": 0.2}),),
    )
    document = tuning_document(replace(tuned.tuning, proof=unsteady))
    assert clause_of(unsteady.because[0])[:30] in markdown(document)


def test_a_check_of_a_tuning_says_its_space_its_budget_and_what_is_refused() -> None:
    space = "tune.space={ max_sequences = [8], max_batched_tokens = [4, 64] }"
    text = plain(screen(check_document(tl.check("tune-vllm", set_=(space,), refuse=False)), whole=True), 100)
    assert "a tuning of at most 0.5 h" in text
    assert "output tokens/s, more is better" in text
    assert "TTFT p90 at most 500 ms" in text
    assert "max_batched_tokens" in text
    assert "of 2 before they start" in text  # 4 tokens are fewer than 8 sequences; without vLLM neither can start
    with pytest.raises(tl.BadInput, match="nothing to tune"):
        tl.check(spec(space={}))


def test_nothing_to_gain_is_said_with_what_would_have_been_seen(tmp_path: Path) -> None:
    found = tl.tune(spec(space={"microbatch": [1, 2]}), tmp_path, watch=None)
    text = plain(found.screen(), 80)
    assert "No gain shown" in text
    assert found.tuning.proof is None or found.tuning.proof.verdict == "no gain shown"


def test_asked_again_a_tuning_that_was_shown_starts_anew_and_one_that_was_not_goes_on(tmp_path: Path) -> None:
    study = spec(space={"microbatch": [1, 2]}, budget={"trials": 2, "wall_h": 0.5, "device_h": 0.5})
    first = tl.tune(study, tmp_path, watch=None, keep_open=True)
    rows = len(read_ledger(first.folder))
    again = tl.tune(study, tmp_path, watch=None)
    assert again.folder == first.folder
    assert len(read_ledger(first.folder)) == rows
    assert tl.tune(study, tmp_path, watch=None).folder != first.folder


def test_a_ledger_of_another_bound_is_not_gone_on_with(tmp_path: Path) -> None:
    study = spec(space={"microbatch": [1, 2]}, budget={"trials": 2, "wall_h": 0.5, "device_h": 0.5})
    folder = tl.tune(study, tmp_path, watch=None, keep_open=True).folder
    lines = (folder / FILE).read_text().splitlines(keepends=True)
    (folder / FILE).write_text(lines[0].replace('"bound": "', '"bound": "0') + "".join(lines[1:]))
    with pytest.raises(tl.BadInput, match="is of another bound"):
        tl.tune(study, tmp_path, watch=None)


def test_a_tuning_that_was_cut_short_is_shown_as_far_as_it_is(tuned: tl.TuneResult, tmp_path: Path) -> None:
    folder = tmp_path / "cut"
    shutil.copytree(tuned.folder, folder, ignore=shutil.ignore_patterns("proof", "elsewhere"))
    rows = (folder / FILE).read_bytes().splitlines(keepends=True)
    (folder / FILE).write_bytes(b"".join(rows[:6]))
    text = plain(tl.tuned(folder).screen(), 80)
    assert "Not over yet" in text
    assert "run the same command again" in text


@pytest.mark.slow
def test_the_highest_rate_within_the_slo_is_an_objective_of_its_own(tmp_path: Path) -> None:
    lengths = {f"{name}_tokens": {"kind": "fixed", "value": value} for name, value in (("input", 16), ("output", 4))}
    data = inference("fake", arrival={"kind": "poisson"}, slo={"ttft_s": 0.2, "quantile": 0.9}, **lengths)
    data["executor"]["options"] = {"a_s": 0.02, "c_s": 0.004, "d_s": 0.004}
    data["protocol"] = {"duration_s": 20.0, "steady_s": 2.0, "min_rows": 10, "isolate": False, "hopeless_s": 0.0}
    bound = {"space": {"d_s": [0.003]}, "budget": {"trials": 2, "wall_h": 0.5, "device_h": 0.5}, "most_rounds": 3,
             "proof": {"elsewhere": False}}  # fmt: skip
    search = {"over": "rate_per_s", "start": 20.0, "most_points": 10}
    found = tl.tune(parse(data | {"point": {}, "search": search, "tune": bound}), tmp_path, watch=None)
    proof = found.tuning.proof
    assert found.settings == {"executor.options.d_s": 0.003}
    assert proof is not None
    assert proof.verdict == "gain"
    assert proof.default.n == 5
    assert "highest rate within the SLO" in plain(found.screen(), 80)


@pytest.mark.slow
def test_kills_of_the_real_program_resume_to_an_answer_and_two_at_once_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "known.toml"
    data = spec(noise=0.0, in_turns=True, proof={"elsewhere": False}).to_dict()
    data["protocol"]["isolate"] = True
    path.write_text(dump(parse(data)))
    words = [sys.executable, "-m", "twinlens", "tune", str(path), "--out", str(tmp_path / "runs"), "-q", "--json"]
    for kill in range(3):
        process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
        ledger = Path()
        for _ in range(600):
            ledger = next((tmp_path / "runs").glob(f"*/{FILE}"), Path())
            if (
                ledger.is_file() and len(ledger.read_bytes().splitlines()) > 6 + 8 * kill
            ) or process.poll() is not None:
                break
            time.sleep(0.1)
        if kill == 0:
            second = called("tune", path, "--out", tmp_path / "runs", "-q")
            assert second.exit_code == 2
            assert "another twinlens" in second.output
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["settings"] == {"executor.options.step_s": 0.08}
    assert found["proof"]["verdict"] == "gain"
    assert len(list((tmp_path / "runs").iterdir())) == 1


def test_candidates_left_out_are_counted_on_the_screen(tuned: tl.TuneResult, tmp_path: Path) -> None:
    folder = tmp_path / "left-out"
    shutil.copytree(tuned.folder, folder, ignore=shutil.ignore_patterns("proof", "elsewhere"))
    ledger = Ledger(folder)
    number = len(ledger.standing.trials)
    ledger.add(Proposed(number, {"microbatch": 2}, "random"))
    ledger.add(Left(number, "left out", "it does not fit"))
    assert "it does not fit" in plain(tl.tuned(folder).screen(why=True), 80)
