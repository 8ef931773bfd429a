"""Throttling by its reasons, and other programs, in the steady window alone: samples by hand."""

from __future__ import annotations

from types import SimpleNamespace

import pyarrow as pa

from twinlens.record.finding import Finding
from twinlens.record.samples import FOREIGN_SHARE, TELEMETRY_SCHEMA, Sample
from twinlens.reporting.wording.finding import sentence_of
from twinlens.stats.finding.checks import shared_machine
from twinlens.stats.metrics.energy import other_programs, throttled


def sampled(*rows: Sample) -> pa.Table:
    return pa.Table.from_pylist([row.to_row() for row in rows], schema=TELEMETRY_SCHEMA)


def board(at_s: float, bits: int | None) -> Sample:
    return Sample(int(at_s * 1e9), "gpu:a", throttle_bits=bits)


def test_each_reason_has_its_share_of_the_windows_samples() -> None:
    rows = sampled(board(0, 0x48), board(1, 0x4), board(2, 0x4 | 0x20), board(3, 0x1), board(4, 0), board(9, 0x80))
    assert throttled(rows, 1, 4) == [("software power cap", 0.5), ("software thermal slowdown", 0.25)]


def test_idle_and_application_clocks_are_no_throttling_and_no_reading_is_no_share() -> None:
    rows = sampled(board(1, 0x1 | 0x2 | 0x10), board(2, None))
    assert throttled(rows, 0, 3) == []
    assert throttled(sampled(), 0, 3) == []


def test_a_power_cap_is_said_as_what_it_is() -> None:
    def found(*bits: int) -> list[Finding]:
        run = SimpleNamespace(telemetry=sampled(*(board(at_s, each) for at_s, each in enumerate(bits))))
        verdict = SimpleNamespace(begin_s=0, end_s=9, validity="valid")
        return list(shared_machine(SimpleNamespace(run=run, verdict=verdict)))  # type: ignore[arg-type]

    (cap,) = found(0x4, 0x0)
    assert cap.severity == "notes", "the normal state of a busy board"
    assert sentence_of(cap).startswith("The accelerator stood at its power limit in 50 % of the steady window")
    (heat,) = found(0x40, 0x0)
    assert heat.severity == "warns"


def test_other_programs_count_from_the_least_share_on_and_inside_the_window_alone() -> None:
    def host(at_s: float, share: float | None) -> Sample:
        return Sample(int(at_s * 1e9), "host", foreign_cpu=share)

    before, inside = host(0, 1.0), (host(1, FOREIGN_SHARE), host(2, 3 * FOREIGN_SHARE), host(3, None))
    assert other_programs(sampled(before, *inside), 1, 3) == 2 * FOREIGN_SHARE
    assert other_programs(sampled(before, host(1, FOREIGN_SHARE / 2)), 1, 3) is None
    assert other_programs(sampled(), 0, 1) is None
