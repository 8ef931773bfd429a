"""A burn-in of the real embedded engine, seconds long: what it computes repeats bit by bit, and a changed bit shows."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.burnin.driving import driven, means, refuse_unsound

from twinlens.spec.load import parse
from twinlens.spec.study import Study

pytestmark = pytest.mark.torch


def _tiny(name: str, **workload: object) -> Study:
    protocol = {"isolate": False, "telemetry_s": 5.0}
    return parse({"name": name, "executor": {"kind": "torch", "device": "cpu", "threads": 1},
                  "workload": {"model": "tiny", **workload}, "protocol": protocol})  # fmt: skip


def test_losses_and_greedy_answers_are_the_same_in_every_turn(tmp_path: Path) -> None:
    lengths = {"input_tokens": {"kind": "fixed", "value": 16}, "output_tokens": {"kind": "fixed", "value": 8}}
    training = _tiny("training", kind="training", global_batch=2, seq_len=32)
    decode = _tiny("decode", kind="inference", **lengths)
    driven(tmp_path, training, decode, for_="8s", turn="2s", window="2s", by=means())
    windows = refuse_unsound(tmp_path)
    assert {each.workload for each in windows} == {"training", "decode"}
    assert all(each.outcome == "ok" for each in windows)
    first, again, *_ = (each.checks for each in windows if each.workload == "training" and each.checks)
    shared = first.keys() & again.keys()
    assert "loss of the first step" in shared
    assert {name: first[name] for name in shared} == {name: again[name] for name in shared}
    said = [each.checks["greedy answers"] for each in windows if "greedy answers" in each.checks]
    assert len(said) >= 2
    assert len({*said}) == 1
