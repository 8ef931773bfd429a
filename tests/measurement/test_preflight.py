"""`check` refuses what `measure` refuses without a server: one function is behind both."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from twinlens.api.measuring.studies import check, measure
from twinlens.errors import BadInput
from twinlens.measurement.preflight.idle_gpu import torch_cuda
from twinlens.spec.load import parse
from twinlens.system.nvml import open_gpus

TRAINING: dict[str, Any] = {"kind": "training", "model": "tiny", "global_batch": 4, "seq_len": 32}
HUGE = TRAINING | {"model": "llama-3.1-405b"}
TAKE_TURNS = {"pairing": "slices", "repeats": 1}


def torch(**data: Any) -> dict[str, Any]:
    return {"executor": {"kind": "torch", "device": "cpu"}, "workload": TRAINING} | data


REFUSED = {
    "a text file that is not there": (
        torch(workload=TRAINING | {"data": {"kind": "text", "path": "/nowhere.txt"}}),
        "cannot read",
    ),
    "fp8 on a processor": (torch(point={"precision": "fp8"}), "needs an NVIDIA GPU"),
    "a device that is none": (torch(executor={"kind": "torch", "device": "mps"}), "Apple GPUs"),
    "a device of another word": (torch(executor={"kind": "torch", "device": "gpu"}), "is not one of auto, cpu"),
    "a model that does not fit": (torch(workload=HUGE), "does not fit"),
    "points that do not fit together": (
        torch(workload=HUGE, sweep={"precision": ["fp32", "bf16"]}, protocol=TAKE_TURNS),
        "fit",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_check_refuses_by_the_sentence_of_measure_and_nothing_is_written(what: str, tmp_path: Path) -> None:
    data, says = REFUSED[what]
    with pytest.raises(BadInput, match=says) as by_check:
        check(parse(data))
    with pytest.raises(BadInput, match=says) as by_measure:
        measure(parse(data), tmp_path, watch=None)
    assert by_check.value.code == by_measure.value.code
    assert list(tmp_path.iterdir()) == []


def test_a_gpu_that_is_not_here_is_refused_without_torch() -> None:
    study = parse(torch(executor={"kind": "torch", "device": "cuda:7"}))
    if open_gpus()[0] or torch_cuda() != "":
        pytest.skip("a GPU, or a torch built for one: what is there is known when torch is opened")
    with pytest.raises(BadInput, match="torch sees 0 CUDA devices") as caught:
        check(study)
    assert caught.value.code == "TL208"


def test_a_microbatch_that_does_not_divide_is_refused_when_the_spec_is_read() -> None:
    with pytest.raises(BadInput, match="does not divide"):
        parse(torch(point={"microbatch": 3}))


SERVED = {
    "executor": {"kind": "openai-http", "options": {"url": "http://127.0.0.1:9/v1"}},
    "workload": {"kind": "inference", "model": "tiny"},
    "sweep": {"rate_per_s": [1.0, 10.0]},
    "protocol": {"duration_s": 60.0},
}


def test_check_says_how_many_requests_a_quantile_needs_and_what_duration_gives_them() -> None:
    slow, fast = check(parse(deepcopy(SERVED)), refuse=False).requests
    assert (slow.expected, fast.expected) == (60, 600)
    assert slow.needed == {"p50": 6, "p90": 36, "p99": 368}
    assert slow.duration_s["p99"] == 460  # 368 and a quarter, in tens of seconds
    longer = parse(deepcopy(SERVED) | {"protocol": {"duration_s": slow.duration_s["p99"]}})
    assert all(one.expected >= one.needed["p99"] for one in check(longer, refuse=False).requests)


def test_how_many_requests_a_closed_loop_has_is_not_known_beforehand() -> None:
    assert check(parse(deepcopy(SERVED) | {"sweep": {"concurrency": [4]}}), refuse=False).requests == ()


def test_a_search_over_a_precision_that_is_lacking_is_refused_before_it_begins(tmp_path: Path) -> None:
    workload = {"kind": "inference", "model": "tiny", "arrival": {"kind": "poisson"}, "slo": {"ttft_s": 1.0}}
    served = {"executor": {"kind": "fake"}, "workload": workload, "search": {}}
    study = parse(deepcopy(served) | {"sweep": {"precision": ["fp32", "fp8"]}})
    lacking = {"0": BadInput("precision 'fp8' is not here", code="TL203")}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("twinlens.measurement.preflight.refuse.refuse_points", lambda specs: lacking)
        with pytest.raises(BadInput, match="fp8") as caught:
            measure(study, tmp_path, watch=None)
    assert caught.value.code == "TL203"
    assert list(tmp_path.iterdir()) == []
