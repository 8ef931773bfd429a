"""Launched servers by turns: one for each point, all up at once, asked one at a time, and none left behind."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from test_launch_process import lives

from material import fixed, inference, run_json, study_of
from twinlens.errors import BadInput
from twinlens.measurement.event import Event
from twinlens.measurement.preflight.memory import needed, refuse_what_cannot_fit_together
from twinlens.measurement.study import measure_study
from twinlens.measurement.summary_file import summary_of
from twinlens.record.codec import decode
from twinlens.record.run import Run
from twinlens.record.sections import Running
from twinlens.reporting.comparing.paired import paired_of
from twinlens.stats.summary.group import group

SLICES = {"isolate": True, "pairing": "slices", "slice_s": 0.05, "duration_s": 0.5, "min_rows": 8, "telemetry_s": 0.05}
CLOSED = {"arrival": {"kind": "closed"}, "point": {"concurrency": 2}}


def by_turns(model: Path, **parts: Any) -> dict[str, Any]:
    lengths = {"input_tokens": fixed(8), "output_tokens": fixed(3), "fidelity_prompts": 0}
    protocol = SLICES | parts.pop("protocol", {})
    return inference(
        "small-server", str(model), sweep={"precision": ["fp32", "bf16"]}, protocol=protocol, **lengths | parts
    )


def server_of(run: Run) -> Running:
    return decode(Running, run_json(run)["server"])


def spans(run: Run) -> list[tuple[int, int, int]]:
    rows, origin_ns = run.requests, run_json(run)["pairing"]["origin_ns"]
    return [
        (
            int(value),
            int(rows.intended_ns[rows.slice == value].min()) + origin_ns,
            int(rows.end_ns[rows.slice == value].max()) + origin_ns,
        )
        for value in np.unique(rows.slice)
    ]


@pytest.mark.parametrize("load", [CLOSED, {}], ids=["closed loop", "lockstep"])
def test_each_point_has_a_server_of_its_own_and_one_is_asked_at_a_time(
    tmp_path: Path, small_server: Path, load: dict[str, Any]
) -> None:
    up: list[list[bool]] = []

    def seen(event: Event) -> None:
        if event.phrase == "measuring in turns" and not up:
            folders = sorted((tmp_path / "out").glob("*/*/server.log"))
            found = [
                child for child in psutil.Process().children(recursive=True) if "small_server" in "".join(cmd(child))
            ]
            up.append([bool(folders), len(found) >= 2])

    outcome = measure_study(study_of(by_turns(small_server, **load)), tmp_path / "out", seen)
    assert not outcome.failures
    assert up == [[True, True]], "both are up while one is asked"
    servers = [server_of(run) for run in outcome.runs]
    assert len({server.pid for server in servers}) == 2
    assert not [server for server in servers if lives(server.pid)]
    turns = sorted(span for run in outcome.runs for span in spans(run))
    assert len(turns) > 2 * 8
    assert all(before[2] <= after[1] for before, after in pairwise(turns))
    found = paired_of(group(map(summary_of, outcome.runs)), outcome.runs)
    assert {each.result.metric for each in found} >= {"output_tokens_per_s"}


def cmd(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def test_a_point_that_is_killed_takes_all_servers_with_it(tmp_path: Path, small_server: Path) -> None:
    killed: list[int] = []

    def kill(event: Event) -> None:
        if event.phrase == "measuring in turns" and not killed:
            workers = [one for one in psutil.Process().children() if "twinlens.measurement.worker" in cmd(one)]
            killed.append(workers[0].pid)
            workers[0].kill()

    data = by_turns(small_server, protocol={"duration_s": 60.0}, **CLOSED)
    outcome = measure_study(study_of(data), tmp_path / "out", kill)
    assert len(outcome.failures) == 1
    assert sorted(run.state for run in outcome.runs) == ["failed", "interrupted"]
    assert all(run.table.num_rows for run in outcome.runs)
    gone = [psutil.Process(server.pid) for run in outcome.runs if lives((server := server_of(run)).pid)]
    assert psutil.wait_procs(gone, timeout=30)[1] == []


def test_servers_that_do_not_fit_together_are_refused_with_their_sum(small_server: Path) -> None:
    specs = study_of(by_turns(small_server, **CLOSED)).point_runs()
    each = [needed(spec)[0] or 0.0 for spec in specs]
    assert min(each) > 0
    refuse_what_cannot_fit_together(specs, sum(each))
    with pytest.raises(BadInput, match="are up together, and they do not fit"):
        refuse_what_cannot_fit_together(specs, max(each))
