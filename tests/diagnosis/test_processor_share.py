"""How much of the processor a run had, from what the host said during it."""

from __future__ import annotations

import pyarrow as pa
import pytest

from twinlens.diagnosis.evidence import processor_share
from twinlens.record.samples import TELEMETRY_SCHEMA, Sample


def told(*samples: tuple[str, float | None, float | None]) -> pa.Table:
    rows = [
        Sample(number, source, cpu_busy=used, waited_cpu=waited).to_row()
        for number, (source, used, waited) in enumerate(samples)
    ]
    return pa.Table.from_pylist(rows, schema=TELEMETRY_SCHEMA)


def test_a_thread_that_waited_as_long_as_it_ran_had_half_of_a_processor() -> None:
    """A quarter of two processors is half a thread; half a thread was ready and had none."""
    first = ("host", None, None)
    assert processor_share(told(first, ("host", 0.25, 0.5), ("host", 0.25, 0.5)), 2) == pytest.approx(0.5)
    assert processor_share(told(first, ("host", 0.5, 0.0), ("gpu:1", 0.9, 9.0)), 2) == pytest.approx(1.0)


@pytest.mark.parametrize("table", [told(), told(("host", None, None)), told(("host", 0.5, None))])
def test_what_the_host_did_not_say_is_not_known(table: pa.Table) -> None:
    assert processor_share(table, 2) is None


def test_processors_that_nobody_counted_give_no_share() -> None:
    assert processor_share(told(("host", 0.5, 0.0)), None) is None
