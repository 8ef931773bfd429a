"""Real servers started afresh: what three of them teach of a fourth, and policies of batching in their real order."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from benchmarks import twins
from benchmarks.simulator import lab

from twinlens.api.runs import read
from twinlens.pack.unpacked import unpacked
from twinlens.simulation.fit.learn import learn


@pytest.fixture(scope="module")
def runs() -> Iterator[Path]:
    with unpacked(twins.PACK) as folder:
        yield folder / "runs"


def test_three_servers_tell_what_a_fourth_does(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Means within twice what fresh servers differ by, p95 in the middle within 15 %, and the band holds most."""
    monkeypatch.setattr(twins, "_DRAWS", 16)
    usual = max(twins._studies(runs), key=lambda study: len(study.servers))
    assert len(usual.servers) == 4
    fourth, *others = usual.servers
    law = learn([run for server in others for run in server])
    assert law.servers == 3
    found = [
        twins._row(usual.name, "a run", twins.SEVERAL, "three", run, law) for run in fourth if twins._is_steady(run)
    ]
    assert len(found) == 3
    errors = np.abs([each.errors for each in found])
    assert errors[:, :2].max() < 0.2, "means"
    assert np.median(errors[:, 2:]) < 0.15, "p95"
    assert np.mean([each.held for each in found]) >= 0.85


def test_policies_of_batching_come_in_the_order_in_which_a_real_server_put_them(
    runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lab, "_DRAWS", 5)
    found = list(lab.policies([run for run in read(runs) if run.spec.point.admission]))
    assert len(found) == 3
    for quantile in lab.QUANTILES:
        assert lab.order(found, quantile, measured=True) == lab.order(found, quantile, measured=False)
