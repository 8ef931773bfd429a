"""What does not go together is said before a server is started and before anything is written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from twinlens.errors import BadInput
from twinlens.measurement.study import measure_study
from twinlens.spec.load import parse


def asked(options: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "executor": {"kind": "transformers-serve", "device": "cpu", "options": options},
        "workload": {"kind": "inference", "model": "tiny", "arrival": more.get("arrival", {"kind": "poisson"})},
        "point": {"precision": "bf16"} | more.get("point", {"rate_per_s": 1.0}),
        "protocol": more.get("protocol", {}),
    }


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        (asked({"clients": 2}, protocol={"guards": True}), "guards sample every answer"),
        (asked({"clients": 2}, arrival={"kind": "single-stream"}, point={}), "one request in flight"),
        (asked({"clients": "many"}), "is a number of processes"),
        (asked({"on": "ray:/nowhere"}), "clients run here or on Ray"),
    ],
)
def test_what_does_not_go_together_is_refused_and_nothing_is_written(
    spec: dict[str, Any], sentence: str, tmp_path: Path
) -> None:
    with pytest.raises(BadInput, match=sentence):
        measure_study(parse(spec), tmp_path)
    assert list(tmp_path.iterdir()) == []
