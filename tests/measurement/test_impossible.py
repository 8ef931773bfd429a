"""What cannot come to anything is refused by `check` exactly as by `measure`, and nothing is written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from material import inference, training
from twinlens.api.measuring.studies import check, measure
from twinlens.errors import BadInput
from twinlens.spec.load import parse

LOAD = {"arrival": {"kind": "poisson"}, "point": {"rate_per_s": 5.0}}


def text(tmp_path: Path, size_bytes: int) -> dict[str, str]:
    file = tmp_path / "text.txt"
    file.write_bytes(b"a" * size_bytes)
    return {"kind": "text", "path": str(file)}


CASES: dict[str, tuple[Any, str]] = {
    "a run of ages": (lambda t: training("torch", protocol={"duration_s": 1e99}), "longer than 30 days"),
    "a window longer than the run": (lambda t: training("torch", protocol={"steady_s": 500.0}), "cannot be reached"),
    "the same under load": (
        lambda t: inference("fake", **LOAD, protocol={"duration_s": 5.0, "steady_s": 6.0}), "ends after 5 s",
    ),
    "a rate of learning": (lambda t: training("fake", learning_rate=4e3), "learning_rate = 4000"),
    "more threads than processors": (lambda t: training("torch", executor={"threads": 999}), "executor.threads = 999"),
    "a batch in training": (lambda t: training("fake", point={"batch": 2}), "point.batch is for inference"),
    "a microbatch in inference": (lambda t: inference("fake", point={"microbatch": 2}), "is for training"),
    "a microbatch that does not divide": (lambda t: training("fake", point={"microbatch": 3}), "does not divide"),
    "a text that is not there": (
        lambda t: training("torch", data={"kind": "text", "path": str(t / "none.txt")}), "No such file",
    ),
    "a text that is a folder's": (lambda t: training("torch", data=text(t, 20)), "is too short: of its 20 bytes"),
    "a text too short to hold out": (
        lambda t: training("torch", data=text(t, 200), until={"loss_nats": 1.0}), "last tenth, held out",
    ),
    "more requests than can be planned": (
        lambda t: inference("fake", **LOAD | {"point": {"rate_per_s": 1e9}}, protocol={"duration_s": 9.0}),
        "more than 10,000,000",
    ),
    "a trace that is not there": (
        lambda t: inference("fake", arrival={"kind": "trace", "path": str(t / "no.csv"), "format": "csv"}), "no trace",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", CASES)
def test_check_refuses_what_measure_refuses_and_nothing_is_written(tmp_path: Path, what: str) -> None:
    make, says = CASES[what]
    sentences = []
    for verb in (check, lambda study: measure(study, tmp_path / "out")):
        with pytest.raises(BadInput) as refused:
            verb(parse(make(tmp_path)))
        sentences.append(str(refused.value))
    assert sentences[0] == sentences[1]
    assert says in sentences[0]
    assert not (tmp_path / "out").exists()


def test_what_can_be_is_left_alone(tmp_path: Path) -> None:
    for data in (
        training("torch", data=text(tmp_path, 4000), until={"loss_nats": 1.0}, point={"microbatch": 2}),
        training("torch", protocol={"duration_s": 5.0, "steady_s": 30.0, "extend": 1}),
        inference("fake", **LOAD, protocol={"duration_s": 5.0, "steady_s": 5.0}),
    ):
        assert check(parse(data))
