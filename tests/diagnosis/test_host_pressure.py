"""Pressure on the host as evidence of a verdict: from the host's own telemetry, and from nothing else."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from diagnosis.saturated import decoded, step, trained
from twinlens.diagnosis.diagnosis import diagnose_evidence
from twinlens.diagnosis.time_split import host_pressure
from twinlens.record.samples import TELEMETRY_SCHEMA, Sample
from twinlens.reporting.wording.finding import sentence_of

S = 1_000_000_000


def table(*samples: Sample) -> pa.Table:
    return pa.Table.from_pylist([each.to_row() for each in samples], schema=TELEMETRY_SCHEMA)


HOST = table(
    Sample(0, "host"),
    Sample(1 * S, "host", waited_cpu=9.0, major_faults=99),  # before the window
    Sample(2 * S, "host", waited_cpu=0.5, gc_share=0.0, major_faults=2),
    Sample(3 * S, "gpu:GPU-1"),
    Sample(4 * S, "host", waited_cpu=1.5, gc_share=0.1, major_faults=3),
    Sample(5 * S, "host", waited_cpu=9.0, gc_share=0.9),  # after it
)


def test_means_are_of_the_rows_of_the_host_within_the_window() -> None:
    found = host_pressure(HOST, 1.0, 4.5)
    assert {name: each.value for name, each in found.items()} == {
        "waited_cpu": pytest.approx(1.0),
        "gc_share": pytest.approx(0.05),
        "major_faults": 5,
    }, "steal and quota are not told here, so they are absent and not 0"
    assert host_pressure(table(), 0.0, 9.0) == {}


def test_a_host_bound_step_says_what_pressed_on_the_host() -> None:
    seen = replace(trained(step(forward=0.6)), partition=step(**{"between-steps": 0.4, "forward": 0.6}))
    found = diagnose_evidence("run", replace(seen, host=host_pressure(HOST, 1.0, 4.5))).verdict
    assert found.code == "host-bound"
    assert set(found.evidence) == {"waited_cpu", "gc_share", "major_faults"}
    said = sentence_of(found)
    assert (
        "Meanwhile on average 1.0 threads waited for a processor and Python collected garbage 5.0 % of the time."
        in said
    )
    assert "Meanwhile" not in sentence_of(diagnose_evidence("run", seen).verdict)


def test_what_computes_has_no_use_for_it() -> None:
    host = host_pressure(HOST, 1.0, 4.5)
    assert not diagnose_evidence("run", replace(trained(step(forward=1.0)), host=host)).verdict.evidence
    small = diagnose_evidence("run", replace(decoded(1e8, 1e9), host=host)).verdict
    assert small.code == "below-ceilings"
    assert "waited_cpu" in small.evidence
