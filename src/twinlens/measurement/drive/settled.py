"""Test during the run whether it is steady, by the rule of the final verdict."""

from __future__ import annotations

from twinlens.record.arrow import RowWriter, read_rows
from twinlens.record.run import ROWS
from twinlens.spec.study import RunSpec
from twinlens.stats.row_kind import ROW_KINDS
from twinlens.stats.steady.levels import SteadyRule


def is_settled(rows: RowWriter, spec: RunSpec) -> bool:
    """Test the rows written so far: compiling rows, evaluations and work as the verdict takes them.

    Reads them back, so call it when time is up and not at each row.
    """
    rows.flush()
    rule = SteadyRule(min_seconds=spec.protocol.steady_s)
    name, schema = ROWS[spec.lens]
    steadiness = ROW_KINDS[spec.lens].steadiness(read_rows(rows.folder / f"{name}.arrows", schema), rule)
    return steadiness is not None and steadiness.validity == "valid"
