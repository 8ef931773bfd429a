"""The falsifier of a run that a launched server really served: twice the requests, and weights of half the bits."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import twinlens as tl
from material import fixed, inference, study_of
from twinlens.api.judging.falsify import tried_on
from twinlens.measurement.study import measure_study
from twinlens.reporting.wording.finding import sentence_of

pytestmark = [pytest.mark.torch, pytest.mark.slow, pytest.mark.alone]
for name in ("torch", "transformers", "uvicorn", "fastapi"):
    pytest.importorskip(name, reason="needs the torch and serve extras")


@pytest.mark.parametrize(
    ("change", "bound", "path", "values"),
    [
        ("double-batch", {"at_least": 1.5}, "point.concurrency", (2, 4)),
        ("halve-weights", {"at_most": 1.9}, "point.precision", ("fp32", "bf16")),
    ],
)
def test_transformers_serve_is_tried_in_turns(
    tmp_path: Path, change: str, bound: dict[str, float], path: str, values: tuple[object, object]
) -> None:
    data = inference(
        "transformers-serve", executor={"threads": 1, "device": "cpu"}, arrival={"kind": "poisson"},
        point={"rate_per_s": 2.0}, input_tokens=fixed(32), output_tokens=fixed(8), fidelity_prompts=0,
        protocol={"duration_s": 5.0, "min_rows": 1},
    )  # fmt: skip
    (run,) = measure_study(study_of(data), tmp_path / "runs").runs
    (found,) = tl.diagnose(run)
    numbers = {"change": change, "batch": 2, **bound}
    verdict = replace(found.verdict, code="latency-bound", subject="decode", numbers=numbers)
    finding = tried_on(run, replace(found, verdict=verdict), None, None)
    assert finding.numbers["metric"] == "decode_tokens_per_s"
    assert (finding.numbers["path"], finding.numbers["from"], finding.numbers["to"]) == (path, *values)
    assert finding.numbers["rounds"] >= 8
    assert (finding.numbers.get("grown") is not None) is (change == "double-batch")
    assert finding.evidence["ratio"].value is not None
    assert finding.numbers["ruling"] in sentence_of(finding)
