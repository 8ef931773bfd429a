"""A probed machine is a device, and what it measured beats the datasheet."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import twinlens as tl
from twinlens.errors import BadInput
from twinlens.planning.probed import probed_device


def probe(product: str = "NVIDIA H100 80GB HBM3", memory: Any = 85_000_000_000, **facts: Any) -> dict[str, Any]:
    rows = [
        {"kind": "read", "format": "", "threads": 1, "value": 3.0e12},
        {"kind": "matrix", "format": "bf16", "threads": 1, "value": 700e12},
        {"kind": "matrix", "format": "bf16", "threads": 2, "value": 710e12},
        {"kind": "matrix", "format": "tf32", "threads": 1, "value": None},
    ]
    known = {"accelerator.product": product, "accelerator.memory_bytes": memory} | facts
    return {"executor": {name: {"value": value} for name, value in known.items()}, "ceilings": rows}


def test_measured_rates_stand_beside_the_datasheet_of_the_same_board() -> None:
    device = probed_device(probe())
    assert (device.bandwidth_bytes_per_s, device.achieved("bf16")) == (3.0e12, 710e12)
    assert device.rate("bf16") == 989.4e12
    assert (device.link, device.memory_visible_bytes) == ("nvlink4", 85_000_000_000)


def test_a_board_that_nobody_knows_is_what_was_measured_and_no_more() -> None:
    device = probed_device(probe("Something New"))
    assert device.rate("bf16") == 710e12
    assert device.rate("fp8") is None
    assert device.tdp_w is None


def test_a_processor_has_the_memory_of_its_host_within_the_limit_of_its_container() -> None:
    host = {"host.memory_bytes": 24_000_000_000, "host.cgroup.memory_limit_bytes": 16_000_000_000}
    device = probed_device(probe("AMD EPYC", None, **{"accelerator.form_factor": "processor"}, **host))
    assert (device.memory_bytes, device.form) == (16_000_000_000, "processor")


def test_a_plan_is_made_for_the_machine_of_a_probe(tmp_path: Path) -> None:
    file = tmp_path / "probe.json"
    file.write_text(json.dumps(probe()))
    found = tl.plan.fit("8B", probe=file)
    assert found.fits
    assert found.answer.asked.device == "this"
    assert found.answer.asked.usable.value == 0.9 * 85_000_000_000


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"executor": 1, "ceilings": []}', '{"executor": {}, "ceilings": []}']
)
def test_a_file_that_is_no_probe_is_one_sentence(tmp_path: Path, text: str) -> None:
    file = tmp_path / "probe.json"
    file.write_text(text)
    with pytest.raises(BadInput) as caught:
        tl.plan.fit("8B", probe=file)
    assert caught.value.code == "TL231"
    with pytest.raises(BadInput, match="of another"):
        tl.plan.fit("8B", probe=file, device="H100")
