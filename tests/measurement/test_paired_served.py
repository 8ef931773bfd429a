"""Served systems by turns: load goes to one at any moment, what is in flight drains first, and waiting is nowhere."""

from __future__ import annotations

import json
import shutil
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from material import called, fixed, inference, measured, run_json, study_of
from twinlens.errors import BadInput
from twinlens.measurement.preflight.refuse import refuse_what_cannot_run
from twinlens.measurement.study import Outcome, measure_study
from twinlens.measurement.summary_file import summary_of
from twinlens.measurement.turns.listener import ListenerMeter
from twinlens.network.null_server import Sent, null_server
from twinlens.record.checksum import marks_path
from twinlens.record.request import REQUEST_SCHEMA
from twinlens.record.run import Run
from twinlens.record.store import read_run
from twinlens.reporting.comparing.paired import paired_of
from twinlens.stats.run_summary import summarise
from twinlens.stats.summary.group import group
from twinlens.stats.summary.serving import peers

CONCURRENCY = 4
SLICES = {"isolate": True, "pairing": "slices", "slice_s": 0.15, "duration_s": 1.6, "min_rows": 30, "telemetry_s": 0.05}
CLOSED = {"arrival": {"kind": "closed"}, "point": {"concurrency": CONCURRENCY}, "output_tokens": fixed(8)}


def spec(urls: list[str], **parts: Any) -> dict[str, Any]:
    protocol = SLICES | parts.pop("protocol", {})
    return inference("openai-http", sweep={"executor.options.url": urls}, protocol=protocol, **CLOSED | parts)


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> tuple[Outcome, dict[str, list[Sent]]]:
    """A quick and a slow server by turns, and what each of them knows to have sent."""
    with null_server(0.01, 0.002) as quick, null_server(0.02, 0.004) as slow:
        outcome = measure_study(study_of(spec([quick.url, slow.url])), tmp_path_factory.mktemp("out"))
        return outcome, {one.url: one.truth() for one in (quick, slow)}


def url(run: Run) -> str:
    return str(run.spec.executor.options["url"])


def spans(run: Run) -> dict[int, tuple[int, int]]:
    """Slice → from its first intended to its last ended request, on the machine's clock."""
    rows, origin_ns = run.requests, run_json(run)["pairing"]["origin_ns"]
    return {
        int(value): (
            int(rows.intended_ns[rows.slice == value].min()) + origin_ns,
            int(rows.end_ns[rows.slice == value].max()) + origin_ns,
        )
        for value in np.unique(rows.slice)
    }


def test_no_row_of_one_point_overlaps_with_a_slice_of_the_other(
    played: tuple[Outcome, dict[str, list[Sent]]],
) -> None:
    turns = sorted((number, span) for run in played[0].runs for number, span in spans(run).items())
    assert [number for number, _ in turns] == list(range(-2, len(turns) - 2))
    assert len(turns) > 2 * 8
    assert all(before[1] <= after[0] for (_, before), (_, after) in pairwise(turns))


def test_a_server_works_in_its_own_slices_only(played: tuple[Outcome, dict[str, list[Sent]]]) -> None:
    """By the servers' own clocks: nothing is asked and no token leaves in the other's turn."""
    outcome, truth = played
    by_url = {url(run): run for run in outcome.runs}
    for run in outcome.runs:
        (other,) = (name for name in by_url if name != url(run))
        begins, ends = np.array(sorted(spans(run).values())).T
        moments = np.concatenate([[one.request_ns, *one.token_ns] for one in truth[other]])
        at = np.searchsorted(begins, moments, side="right") - 1
        within = (at >= 0) & (moments < ends[np.maximum(at, 0)])
        assert moments.size > 100
        assert not within.any()


def test_each_slice_is_whole_waves_and_all_of_it_is_answered(played: tuple[Outcome, dict[str, list[Sent]]]) -> None:
    for run in played[0].runs:
        rows = run.requests
        (size,) = {int((rows.slice == value).sum()) for value in np.unique(rows.slice[rows.slice >= 0])}
        assert size % CONCURRENCY == 0
        assert size >= 4 * CONCURRENCY
        assert set(rows.outcome) == {"ok"}
        assert sorted(rows.group) == list(range(len(rows)))


def test_rates_and_waits_are_over_the_time_that_was_its_own(played: tuple[Outcome, dict[str, list[Sent]]]) -> None:
    for run in played[0].runs:
        found, rows = summary_of(run).metrics, run.requests
        own_s = sum(end - begin for begin, end in spans(run).values()) / 1e9
        wall_s = float(rows.end_ns.max() - rows.intended_ns.min()) / 1e9
        rate = found["output_tokens_per_s"].value
        assert rate is not None
        assert rate == pytest.approx(float(rows.output_tokens.sum()) / own_s, rel=0.5)
        assert rate > 1.2 * float(rows.output_tokens.sum()) / wall_s
        assert (found["mean_in_flight"].value or 0) > 0.6 * CONCURRENCY


def test_the_ratio_of_two_servers_has_an_interval_beside_rates_of_each(
    played: tuple[Outcome, dict[str, list[Sent]]],
) -> None:
    runs = played[0].runs
    (one,) = paired_of(group(map(summary_of, runs)), runs)
    assert one.result.metric == "output_tokens_per_s"
    assert one.result.blocks >= 8
    assert one.result.ratio.value is not None
    named = {one.group.machine.name: one.result.ratio.value} if one.group.machine else {}
    quick, slow = list(played[1])
    is_quick = quick in named
    value = one.result.ratio.value if is_quick else 1 / one.result.ratio.value
    assert 1.2 < value < 2.5
    assert is_quick != (slow in named)


def test_what_one_takes_longer_is_said_in_time_with_what_failed(played: tuple[Outcome, dict[str, list[Sent]]]) -> None:
    """The slow server, listed second, is held against the quick one; it is 10 ms later, whatever else runs here."""
    runs, (quick, slow) = played[0].runs, played[1]
    (one,) = paired_of(group(map(summary_of, runs)), runs)
    assert one.added is not None
    assert (one.added.above, one.added.below) == (slow, quick)
    assert one.added.times.keys() == {"ttft_s_p50", "ttft_s_p99", "itl_s_p50", "itl_s_p99"}
    assert one.added.times["ttft_s_p50"].value is not None
    assert one.added.failed == (0, 0)
    measured = {url(run): int((run.requests.slice >= 0).sum()) for run in runs}
    assert one.added.requests == (measured[slow], measured[quick])


def test_the_process_that_listens_is_metered_in_its_turns(played: tuple[Outcome, dict[str, list[Sent]]]) -> None:
    """Each null server is a process of its own; the slow one's time a token is its time over its tokens."""
    listeners = {url(run): run.sections.listener for run in played[0].runs}
    assert len({each.pid for each in listeners.values() if each is not None} - {None}) == 2
    (one,) = paired_of(group(map(summary_of, played[0].runs)), played[0].runs)
    (run,) = (run for run in played[0].runs if one.added is not None and url(run) == one.added.above)
    tokens, listener = run.requests.output_tokens[run.requests.slice >= 0].sum(), run.sections.listener
    assert one.added is not None
    assert listener is not None
    assert listener.cpu_s is not None
    assert one.added.spent.per_token.value == pytest.approx(listener.cpu_s / tokens)


def test_an_address_elsewhere_has_no_processor_time_and_says_so() -> None:
    found = ListenerMeter.of("http://192.0.2.1:8000/v1").read()
    assert (found.cpu_s, found.why) == (None, "its address is not on this machine")


def test_show_and_json_have_it(played: tuple[Outcome, dict[str, list[Sent]]]) -> None:
    shown = called("show", played[0].folder, "--all")
    assert "ratios from paired slices" in shown.stdout, shown.stderr
    (one,) = json.loads(called("show", played[0].folder, "--json").stdout)["paired"]
    assert one["metric"] == "output_tokens_per_s"
    assert "of processor time a token" in " ".join(shown.stdout.split())
    assert one["added"]["times"].keys() >= {"ttft_s_p50"}


def test_the_client_is_calibrated_and_a_page_of_totals_is_not_read(
    played: tuple[Outcome, dict[str, list[Sent]]],
) -> None:
    for run in played[0].runs:
        assert run_json(run)["calibration"]["ceiling_tokens_per_s"] > 0
        assert run_json(run)["client"]["reads"] > 0
        assert "took turns" in run_json(run)["server_metrics"]["reason"]


def test_waiting_between_slices_changes_no_figure(tmp_path: Path) -> None:
    """The same rows with an hour between slices: every figure but the clock of the window is equal."""
    data = inference("fake", options={"noise": 0.2}, protocol={"duration_s": 30.0, "min_rows": 60}, **CLOSED)
    run = measured(tmp_path, data)
    number = np.arange(run.table.num_rows) // (3 * CONCURRENCY)

    def sliced(waited_s: int) -> Run:
        at = number * waited_s * 10**9
        plain = run.table.to_pylist()
        for row, slice_, shift in zip(plain, number.tolist(), at.tolist(), strict=True):
            row["slice"] = slice_
            for name in ("intended_ns", "sent_ns", "end_ns"):
                row[name] += shift
            row["chunk_ns"] = [one + shift for one in row["chunk_ns"]]
        folder = tmp_path / f"{waited_s}" / run.id
        shutil.copytree(run.folder, folder)
        marks_path(folder / "requests.arrows").unlink()
        with pa.ipc.new_stream(str(folder / "requests.arrows"), REQUEST_SCHEMA) as stream:
            stream.write_table(pa.Table.from_pylist(plain, schema=REQUEST_SCHEMA))
        return read_run(folder)

    near, far = sliced(10), sliced(3600)
    assert summarise(near).metrics == summarise(far).metrics
    assert peers(near) == peers(far)
    verdicts = [summarise(one).verdict for one in (near, far)]
    assert verdicts[0].label == verdicts[1].label
    assert (verdicts[0].begin_row, verdicts[0].end_row) == (verdicts[1].begin_row, verdicts[1].end_row)
    last_s = [float(one.requests.intended_ns.max()) / 1e9 for one in (near, far)]
    assert [one.end_s for one in verdicts] == pytest.approx(last_s)


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        (
            {"arrival": {"kind": "poisson"}, "point": {"rate_per_s": 4.0}},
            "as full as poisson arrivals make it",
        ),
        ({"sessions": {"turns": fixed(2)}}, "leave out workload.sessions"),
        ({"point": {"concurrency": 2, "admission": "continuous", "in_flight": 2}}, "leave out point.admission"),
        ({"protocol": {"guards": True}}, "protocol.guards = false"),
    ],
)
def test_what_cannot_be_played_in_turns_is_refused_in_a_sentence(parts: dict[str, Any], words: str) -> None:
    with pytest.raises(BadInput, match=words):
        study_of(spec(["http://127.0.0.1:1/v1", "http://127.0.0.1:2/v1"], **parts))


def test_several_clients_do_not_take_turns() -> None:
    data = inference("openai-http", sweep={"point.concurrency": [1, 2]}, protocol=SLICES, arrival={"kind": "closed"},
                     options={"url": "http://127.0.0.1:1/v1", "clients": 2})  # fmt: skip
    with pytest.raises(BadInput, match="one client plays every turn"):
        refuse_what_cannot_run(study_of(data).point_runs()[0])


def test_a_server_that_is_gone_ends_the_repeat_and_the_rows_stay(tmp_path: Path) -> None:
    gone = "http://127.0.0.1:9/v1"
    with null_server(0.0, 0.001) as well:
        outcome = measure_study(study_of(spec([well.url, gone])), tmp_path)
    (failure,) = outcome.failures
    assert "127.0.0.1:9" in str(failure)
    assert "failed" in {run.state for run in outcome.runs}
    assert {run.state for run in outcome.runs} <= {"failed", "interrupted"}
