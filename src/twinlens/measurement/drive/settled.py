"""Test during the run whether it is steady, by the rule of the final verdict."""

from __future__ import annotations

from twinlens.record.arrow import RowWriter, read_rows
from twinlens.record.request import REQUEST_SCHEMA, Requests
from twinlens.record.step import EXCHANGE_SCHEMA, STEP_SCHEMA, Exchanges, Steps
from twinlens.spec.study import RunSpec
from twinlens.stats.metrics.inference import exchange_steadiness, inference_steadiness
from twinlens.stats.metrics.training import training_steadiness
from twinlens.stats.steady.levels import SteadyRule


def is_settled(rows: RowWriter, spec: RunSpec) -> bool:
    """Whether the rows written so far show a steady run: compiling rows, evaluations and work as the verdict

    takes them. Reads them back, so call it when time is up and not at each row.
    """
    rows.flush()
    rule = SteadyRule(min_seconds=spec.protocol.steady_s)
    if spec.lens == "collective":
        exchanges = Exchanges.from_table(read_rows(rows.folder / "exchanges.arrows", EXCHANGE_SCHEMA))
        steadiness = exchange_steadiness(exchanges, rule)
    elif spec.lens == "training":
        _, steadiness = training_steadiness(
            Steps.from_table(read_rows(rows.folder / "steps.arrows", STEP_SCHEMA)), rule
        )
    else:
        requests = Requests.from_table(read_rows(rows.folder / "requests.arrows", REQUEST_SCHEMA))
        _, steadiness = inference_steadiness(requests, rule)
    return steadiness is not None and steadiness.validity == "valid"
