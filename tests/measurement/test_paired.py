"""Points that take turns: one works at any moment, in balanced order, and whatever ends early ends properly."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow as pa
import pytest
from benchmarks.published import published

from material import inference, run_json, study_of, training
from twinlens.errors import BadInput, Interrupted
from twinlens.measurement.event import Event
from twinlens.measurement.preflight import memory
from twinlens.measurement.preflight.memory import needed, refuse_what_cannot_fit_together
from twinlens.measurement.preflight.refuse import refuse_what_cannot_run
from twinlens.measurement.study import measure_study, unfinished_study
from twinlens.measurement.summary_file import summary_of
from twinlens.record.run import Run
from twinlens.record.samples import TELEMETRY_SCHEMA, Sample
from twinlens.record.store import find_runs, read_run
from twinlens.stats.run_summary import summarise

REAL = {"pace": 1, "step_s": 0.02, "a_s": 0.01, "b_s": 0.0, "c_s": 0.005}
SLICES = {"isolate": True, "pairing": "slices", "slice_s": 0.06, "duration_s": 0.4, "min_rows": 3, "ceilings": False}

TWO = {"precision": ["fp32", "bf16"]}


def paired(lens: Any = training, precisions: tuple[str, ...] = ("fp32", "bf16"), **protocol: Any) -> dict[str, Any]:
    return lens("fake", options=REAL, sweep={"precision": list(precisions)}, protocol=SLICES | protocol)  # type: ignore[no-any-return]


def test_a_recording_cannot_take_turns() -> None:
    specs = study_of(training("replay", sweep=TWO, protocol=SLICES)).point_runs()
    with pytest.raises(BadInput, match="a recorded run is not measured again"):
        refuse_what_cannot_run(specs[0])


@pytest.fixture(scope="module", params=[training, inference], ids=["training", "inference"])
def runs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, ...]:
    data = paired(request.param, ("fp32", "bf16", "fp16"))
    return measure_study(study_of(data), tmp_path_factory.mktemp("out")).runs


def spans(run: Run) -> dict[int, tuple[int, int]]:
    """Slice → its begin and end on the machine's clock, by its rows."""
    table, origin_ns = run.table, run_json(run)["pairing"]["origin_ns"]
    begin = table.column("begin_ns" if run.lens == "training" else "intended_ns").to_numpy() + origin_ns
    end, number = table.column("end_ns").to_numpy() + origin_ns, table.column("slice").to_numpy()
    return {
        int(value): (int(begin[number == value].min()), int(end[number == value].max())) for value in np.unique(number)
    }


def test_exactly_one_point_works_at_any_moment(runs: tuple[Run, ...]) -> None:
    turns = sorted((number, span) for run in runs for number, span in spans(run).items())
    assert [number for number, _ in turns] == list(range(-3, len(turns) - 3))
    assert all(before[1] <= after[0] for (_, before), (_, after) in pairwise(turns))


def test_each_round_gives_every_point_one_turn(runs: tuple[Run, ...]) -> None:
    rounds = [sorted(number // 3 for number in spans(run)) for run in runs]
    assert rounds == [list(range(-1, len(rounds[0]) - 1))] * 3
    assert len(rounds[0]) > 8  # as many as a ratio needs, and one to warm up


def test_the_slices_of_a_point_are_of_one_size(runs: tuple[Run, ...]) -> None:
    """A slice that ended by the clock would end sooner after slow rows."""
    for run in runs:
        number = run.table.column("slice").to_numpy()
        sizes = {int((number == value).sum()) for value in np.unique(number[number >= 0])}
        assert len(sizes) == 1


def test_no_row_holds_waiting(runs: tuple[Run, ...]) -> None:
    """Two thirds of the time others work; the rate is that of the time that was this point's own: between those of
    its slowest and its fastest slice."""
    for run in runs:
        summary = summary_of(run)
        name = "training_tokens_per_s" if run.lens == "training" else "output_tokens_per_s"
        worked = run.table.column("tokens" if run.lens == "training" else "output_tokens").to_numpy()
        of_slice = run.table.column("slice").to_numpy()
        each = [worked[of_slice == one].sum() / (end - begin) * 1e9 for one, (begin, end) in spans(run).items()]
        work = worked.sum()
        rate = summary.metrics[name].value
        wall_s = (max(end for _, end in spans(run).values()) - min(begin for begin, _ in spans(run).values())) / 1e9
        assert rate is not None
        assert min(each) * 0.99 < rate < max(each) * 1.01
        assert rate > 1.5 * work / wall_s


def test_waiting_costs_no_processor_time(runs: tuple[Run, ...]) -> None:
    for run in runs:
        pairing = run_json(run)["pairing"]
        assert pairing["waited_s"] > 0.3
        assert pairing["waited_cpu_s"] < 0.02 * pairing["waited_s"]


def test_rounds_end_at_the_first_look_at_which_every_ratio_is_known(tmp_path: Path) -> None:
    """0.4 s are the least and 60 s the most; a ratio within a factor of two is known at the first looks."""
    asked = paired(precisions=("fp32", "bf16"), most_s=60, width=1.0, repeats=1)
    found = measure_study(study_of(asked), tmp_path / "wide").runs
    for run in found:
        own_s = sum(end - begin for number, (begin, end) in spans(run).items() if number >= 0) / 1e9
        assert 0.4 <= own_s < 30
    never = measure_study(study_of(paired(most_s=0.8, width=1e-9, repeats=1)), tmp_path / "narrow").runs
    for run in never:
        assert sum(end - begin for number, (begin, end) in spans(run).items() if number >= 0) / 1e9 >= 0.8


def test_duration_is_of_each_point(runs: tuple[Run, ...]) -> None:
    for run in runs:
        own_s = sum(end - begin for number, (begin, end) in spans(run).items() if number >= 0) / 1e9
        assert own_s >= 0.4


def test_samples_are_taken_in_own_turns_only(runs: tuple[Run, ...]) -> None:
    for run in runs:
        times = run.telemetry.column("time_ns").to_numpy() + run_json(run)["pairing"]["origin_ns"]
        others = [span for other in runs if other is not run for span in spans(other).values()]
        middle = [(begin + (end - begin) // 4, end - (end - begin) // 4) for begin, end in others]
        inside = [any(begin < moment < end for begin, end in middle) for moment in times]
        assert np.mean(inside) < 0.2


def test_the_energy_of_turns_is_that_of_own_turns_or_says_which_counter_lacks(runs: tuple[Run, ...]) -> None:
    for run in runs:
        power, counted = summary_of(run).metrics["mean_power_w"], run.telemetry.column("energy_mj").null_count
        if power.value is None:
            assert power.reason
            assert "goes on counting" not in power.reason
        assert power.value is None or counted < run.telemetry.num_rows


def test_energy_is_charged_by_own_turns_where_a_counter_was_read(runs: tuple[Run, ...]) -> None:
    """A fake meter of the processor: 90 W in the turns of one point, 300 W in those of the others."""
    run = runs[0]
    turns = [(begin - run_json(run)["pairing"]["origin_ns"], end - run_json(run)["pairing"]["origin_ns"])
             for begin, end in spans(run).values()]  # fmt: skip
    joules, before, rows = 0.0, 0, []
    for begin_ns, end_ns in turns:
        for now_ns, watts in ((begin_ns, 300), (end_ns, 90)):
            joules += watts * (now_ns - before) / 1e9
            before = now_ns
            rows.append(Sample(now_ns, "package:0", energy_mj=round(joules * 1e3)).to_row())
    metered = replace(run)
    vars(metered)["telemetry"] = pa.Table.from_pylist(rows, schema=TELEMETRY_SCHEMA)
    metrics = summarise(metered).metrics
    power = metrics["mean_power_w"]
    assert power.value == pytest.approx(90, rel=0.01)
    assert "turns" in power.method
    if run.lens == "training":
        own_s = sum(end - begin for begin, end in turns) / 1e9
        assert metrics["energy_to_completion_j"].value == pytest.approx(90 * own_s, rel=0.01)


BEGIN = """
import json, sys
from pathlib import Path
sys.path.insert(0, sys.argv[3])
from material import study_of
from twinlens.measurement.study import measure_study
def told(event):
    if event.rows:
        print("working", flush=True)
measure_study(study_of(json.loads(sys.argv[2])), Path(sys.argv[1]), told)
"""


def begun(out: Path, data: dict[str, Any]) -> subprocess.Popen[str]:
    """A paired study in a process of its own, whose points have rows."""
    here = str(Path(__file__).parents[1])
    process = subprocess.Popen(
        [sys.executable, "-c", BEGIN, str(out), json.dumps(data), here], stdout=subprocess.PIPE, text=True,
        stderr=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    assert process.stdout is not None
    for _ in range(3):
        assert process.stdout.readline() == "working\n"
    return process


LONG = {"duration_s": 60.0, "repeats": 1}


def test_a_killed_point_ends_the_repeat_and_nothing_is_lost(tmp_path: Path) -> None:
    process = begun(tmp_path, paired(**LONG))
    victim = find_runs(tmp_path)[0]
    psutil.Process(run_json(victim)["pid"]).kill()
    process.communicate(timeout=180)
    assert process.returncode == 0
    states = {run.id: (run.state, run.error or "") for run in find_runs(tmp_path)}
    state, error = states.pop(victim.id)
    assert (state, "killed by signal 9" in error) == ("failed", True)
    ((other, why),) = states.values()
    assert other == "interrupted"
    assert "took turns with another run, which failed" in why
    assert all(run.table.num_rows for run in find_runs(tmp_path))
    assert not [pid for run in find_runs(tmp_path) for pid in [run_json(run)["pid"]] if psutil.pid_exists(pid)]


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_study_that_ends_takes_all_points_along_and_keeps_their_rows(tmp_path: Path, number: signal.Signals) -> None:
    process = begun(tmp_path, paired(**LONG))
    workers = [psutil.Process(run_json(run)["pid"]) for run in find_runs(tmp_path)]
    process.send_signal(number)
    process.communicate(timeout=180)
    assert psutil.wait_procs(workers, timeout=120)[1] == []
    found = find_runs(tmp_path)
    assert [run.state for run in found] == ["interrupted", "interrupted"]
    assert all(run.table.num_rows for run in found)


@pytest.mark.slow
def test_a_repeat_that_was_interrupted_is_measured_again_whole(tmp_path: Path) -> None:
    study = study_of(paired(repeats=2))

    def stop(event: Event) -> None:
        if event.run.repeat == 1 and event.rows:
            raise KeyboardInterrupt

    with pytest.raises(Interrupted, match="run it again to go on"):
        measure_study(study, tmp_path, stop)
    assert [run.state for run in find_runs(tmp_path)].count("finished") == 2
    assert unfinished_study(study, tmp_path) is not None
    outcome = measure_study(study, tmp_path)
    assert outcome.resumed == 2
    by_turns: dict[str, list[Run]] = {}
    for run in outcome.runs:
        by_turns.setdefault(run_json(run)["pairing"]["id"], []).append(run)
    kinds = [([run.spec.repeat for run in one], {run.state for run in one}) for one in by_turns.values()]
    assert kinds == [([0, 0], {"finished"}), ([1, 1], {"interrupted"}), ([1, 1], {"finished"})]


def test_progress_only_grows(tmp_path: Path) -> None:
    seen: list[Event] = []
    measure_study(study_of(paired()), tmp_path, seen.append)
    whole = [(event.number - 1 + event.share) / event.total for event in seen]
    assert whole == sorted(whole)
    assert whole[-1] == 1.0
    opened = [event.phrase.split(",")[0] for event in seen if event.phrase.startswith("opening")]
    assert list(dict.fromkeys(opened)) == ["opening 1 of 2 that take turns", "opening 2 of 2 that take turns"]


def test_a_point_that_cannot_open_says_so_and_leaves_nothing_up(tmp_path: Path) -> None:
    """The client opens its certificates in the worker: a point that fails there, without 7 s for torch in each."""
    data = inference(
        "openai-http",
        options={"url": "https://127.0.0.1:9/v1", "probe": False, "ca_file": str(tmp_path / "none.pem")},
        arrival={"kind": "closed"},
        sweep={"concurrency": [1, 2]},
        protocol=SLICES,
    )
    with pytest.raises(BadInput, match=r"as-served, repeat 0: executor.options.ca_file .* cannot be read"):
        measure_study(study_of(data), tmp_path / "runs")
    found = {run.spec.point.concurrency: run.state for run in find_runs(tmp_path / "runs")}
    assert found == {1: "failed", 2: "interrupted"}
    assert not [run for run in find_runs(tmp_path / "runs") if psutil.pid_exists(run_json(run)["pid"])]


def test_points_that_do_not_fit_together_are_refused_with_their_sum(tmp_path: Path) -> None:
    specs = study_of(training("torch", sweep={"precision": ["fp32", "bf16"]}, protocol=SLICES)).point_runs()
    each = [needed(spec)[0] for spec in specs]
    refuse_what_cannot_fit_together(specs, sum(each))
    with pytest.raises(BadInput, match="are up together, and they do not fit") as caught:
        refuse_what_cannot_fit_together(specs, max(each) * 1.5)
    assert caught.value.code == "TL211"
    assert "(fp32)" in str(caught.value)
    assert "(bf16)" in str(caught.value)


def test_points_of_unknown_size_are_not_taken_for_points_of_none(monkeypatch: pytest.MonkeyPatch) -> None:
    specs = study_of(training("torch", sweep={"precision": ["fp32", "bf16"]}, protocol=SLICES)).point_runs()
    unknown = {"fp32": (None, "serving m: not modelled, its kind is not known"), "bf16": (1e9, "serving m")}
    monkeypatch.setattr(memory, "needed", lambda spec: unknown[spec.point.precision])
    with pytest.raises(BadInput, match="whether they fit is not known: serving m: not modelled") as caught:
        refuse_what_cannot_fit_together(specs, 1e12)
    assert caught.value.code == "TL211"
    refuse_what_cannot_fit_together(specs[:1], 1e12)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (training("fake", protocol=SLICES), "nothing to pair it with"),
        (paired(isolate=False), "protocol.isolate = true"),
        (paired(slice_s=1.0), "longer than protocol.duration_s"),
        (training("fake", sweep=TWO, protocol=SLICES, until={"gap_nats": 0.1}), "race to a target loss"),
        (inference("fake", sweep=TWO, protocol=SLICES, arrival={"kind": "offline", "requests": 4}), "in lockstep"),
    ],
)
def test_what_cannot_take_turns_is_refused_in_a_sentence(data: dict[str, Any], words: str) -> None:
    with pytest.raises(BadInput, match=words):
        study_of(data)


def test_a_run_of_an_older_version_has_no_slices(tmp_path: Path) -> None:
    run = next(run for run in find_runs(published()) if run.lens == "training" and run.table.num_rows)
    assert np.isnan(read_run(run.folder).steps.slice).all()
