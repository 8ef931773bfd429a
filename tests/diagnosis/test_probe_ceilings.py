"""Ceilings from an earlier probe: of the same machine, in the format of the run, and named as such."""

from __future__ import annotations

import copy
import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from benchmarks.published import published
from click.testing import CliRunner, Result

from twinlens.cli.main import app
from twinlens.diagnosis.probe_ceilings import LINK, probe_ceilings
from twinlens.record.codec import encode
from twinlens.record.estimate import Estimate
from twinlens.record.executor.record import ExecutorRecord, observed
from twinlens.record.run import Run
from twinlens.record.store import read_run
from twinlens.units import BYTES_PER_S, FLOP_PER_S

RESULTS = published()
SERVED = sorted((RESULTS / "2026-11-21-served-epyc-2core").glob("*/*serve-vllm_bf16*"))[0]
REMOTE = sorted((RESULTS / "2026-11-22-url-epyc-2core").glob("*/*as-served*"))[0]


def probe_of(**facts: Any) -> dict[str, Any]:
    """What `probe --json` prints, of the machine of the published runs but for `facts`."""
    known = json.loads((SERVED / "run.json").read_text())["facts"]["executor"]
    for key, value in facts.items():
        known[key.replace("__", ".")] = {"value": value, "capture": "observed", "source": "by hand"}
    rows = [
        {"kind": kind, "format": form, "layout": "", "threads": threads}
        | encode(Estimate(value * threads, unit, "by hand", "measured"))
        for threads in (1, 2)
        for kind, form, value, unit in (
            ("read", "", 5e9, BYTES_PER_S), ("matrix", "bf16", 4e11, FLOP_PER_S), ("matrix", "fp32", 1e11, FLOP_PER_S),
        )
    ]  # fmt: skip
    return {"schema": 1, "executor": known, "ceilings": rows, "why_no_ceilings": None}


def diagnosed(tmp_path: Path, probe: Any, run: Path = SERVED, *more: str) -> Result:
    file = tmp_path / "probe.json"
    file.write_text(probe if isinstance(probe, str) else json.dumps(probe))
    return CliRunner().invoke(app, ["diagnose", str(run), "--ceilings", str(file), *more])


def test_a_served_run_is_held_against_an_earlier_probe_of_its_machine_which_is_named(tmp_path: Path) -> None:
    without = CliRunner().invoke(app, ["diagnose", str(SERVED), "--json"])
    assert json.loads(without.stdout)["diagnoses"][0]["verdict"]["code"] == "indeterminate"
    told = diagnosed(tmp_path, probe_of(), SERVED, "--json")
    assert told.exit_code == 0, told.stderr
    (found,) = json.loads(told.stdout)["diagnoses"]
    verdict, numbers = found["verdict"], found["verdict"]["numbers"]
    assert (verdict["code"], verdict["subject"]) == ("below-ceilings", "decode")
    # One thread, as the server had: its read rate, and not that of two threads.
    assert numbers["ridge"] == pytest.approx(4e11 / 5e9)
    assert numbers["bandwidth_share"] == pytest.approx(0.45, abs=0.03)
    assert "an earlier probe of the same machine" in json.dumps(found["counters"])
    assert "of the matrix rate of an earlier probe" in verdict["text"]
    assert numbers["confidence"] == "medium", "not high: its ceilings are of another hour"


@pytest.mark.parametrize(
    ("probe", "says"),
    [
        ("{", "is no JSON; make one with `twinlens probe --json > FILE`"),
        ("[]", "is no probe; make one with"),
        ({"executor": {}, "ceilings": [{"kind": "read"}]}, "is no probe"),
        (probe_of(host__cpu__model="another"), "is of another machine: its host.cpu.model is another, that of the run"),
        (probe_of() | {"ceilings": [], "why_no_ceilings": "no engine"}, "has no ceilings (no engine)"),
    ],
)
def test_what_is_no_probe_of_that_machine_is_one_sentence(tmp_path: Path, probe: Any, says: str) -> None:
    told = diagnosed(tmp_path, probe)
    assert told.exit_code == 2
    assert told.stderr.count("\n") == 1
    assert says in told.stderr
    assert "TL229" in told.stderr


def test_memory_that_differs_by_a_reserve_is_the_same_machine(tmp_path: Path) -> None:
    probe = probe_of()
    near = copy.deepcopy(probe)
    near["executor"]["host.memory_bytes"]["value"] *= 1.001
    assert diagnosed(tmp_path, near).exit_code == 0
    near["executor"]["host.memory_bytes"]["value"] *= 2
    assert diagnosed(tmp_path, near).exit_code == 2


def test_a_server_over_http_names_no_machine_so_the_probe_is_taken_as_given(tmp_path: Path) -> None:
    told = diagnosed(tmp_path, probe_of(), REMOTE, "--json")
    (found,) = json.loads(told.stdout)["diagnoses"]
    # Its formats are not known, so neither are its bytes: the ceiling is there and nothing to hold against it.
    assert "does not say its formats" in found["verdict"]["text"]
    assert "compute" in next(f for f in found["findings"] if f["code"] == "ceiling-not-measured")["numbers"]["lacking"]


def test_a_file_that_is_not_there_is_one_sentence(tmp_path: Path) -> None:
    told = CliRunner().invoke(app, ["diagnose", str(SERVED), "--ceilings", str(tmp_path / "nowhere.json")])
    assert told.exit_code == 2
    assert told.stderr.count("\n") == 1


@pytest.mark.parametrize("value", [1e-300, 1e300])
def test_ceilings_of_no_machine_are_one_sentence_in_a_probe_and_in_a_run(tmp_path: Path, value: float) -> None:
    probe = probe_of()
    probe["ceilings"][0] |= {"value": value}
    told = diagnosed(tmp_path, probe)
    assert told.exit_code == 2
    assert f"read is {value:g} bytes/s, which no machine has" in " ".join(told.stderr.split())
    run = Path(shutil.copytree(SERVED, tmp_path / "run"))
    kept = json.loads((run / "run.json").read_text())
    kept["facts"]["ceilings"] = {"read_bytes_per_s": encode(Estimate(value, BYTES_PER_S, "by hand", "measured"))}
    (run / "run.json").write_text(json.dumps(kept))
    for verb in ("diagnose", "show"):
        told = CliRunner().invoke(app, [verb, str(run)])
        assert told.exit_code == 2
        assert f"read_bytes_per_s is {value:g} bytes/s, which no machine has" in " ".join(told.stderr.split())


def test_a_link_is_lent_to_a_run_of_as_many_ranks_where_a_fit_of_it_holds() -> None:
    run = read_run(SERVED)
    assert run.facts is not None
    two = ExecutorRecord(dict(run.facts.executor.facts) | {"training.world_size": observed(2, "by hand")})
    of_two = replace(run, facts=replace(run.facts, executor=two))
    rate = encode(Estimate(2e9, BYTES_PER_S, "a fit", "derived"))
    fit = {"kind": "all-reduce", "refused": None, "segments": [{"bus_bytes_per_s": rate}]}

    def link(run: Run, **changed: Any) -> float | None:
        collectives = {"ranks": 2, "fits": [fit]} | changed
        known = probe_ceilings(run, probe_of() | {"collectives": collectives}, "probe.json")
        return known[LINK].value if LINK in known else None

    assert link(of_two) == 2e9
    assert link(run) is None, "a run that says no number of ranks"
    assert link(of_two, ranks=4) is None
    assert link(of_two, fits=[fit | {"refused": "no line fits"}]) is None
    assert link(of_two, fits="torn") is None
    assert LINK not in probe_ceilings(of_two, probe_of(), "probe.json")


@pytest.mark.parametrize(
    ("facts", "rate"),
    [({}, 5e9), ({"accelerator.uuid": ["GPU-a"]}, 5e9), ({"accelerator.uuid": list("abcdefgh")}, 40e9),
     ({"training.world_size": 2}, 10e9), ({"training.world_size": 2, "accelerator.uuid": ["GPU-a", "GPU-b"]}, 10e9)],
    ids=["one thread", "one board", "eight boards", "two ranks of one thread", "two ranks on boards"],
)  # fmt: skip
def test_a_probe_of_one_board_is_lent_as_often_as_the_run_has_boards(facts: dict[str, Any], rate: float) -> None:
    run = read_run(SERVED)
    assert run.facts is not None
    known = ExecutorRecord(dict(run.facts.executor.facts) | {name: observed(v, "by hand") for name, v in facts.items()})
    lent = probe_ceilings(replace(run, facts=replace(run.facts, executor=known)), probe_of(), "probe.json")
    assert lent["read_bytes_per_s"].value == rate
