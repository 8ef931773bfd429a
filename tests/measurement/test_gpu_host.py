"""GPUs on the host's side, without one: which boards are a run's, whose processes and energy, and what is unknown."""

from __future__ import annotations

import json
import os
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from material import inference, spec_of, training
from nvml_machine import Board, Machine, with_slices
from twinlens.errors import BadInput
from twinlens.executors.launch.recipe import gpu_environment, visible_gpus
from twinlens.measurement.facts.predicted_work import datasheet_of
from twinlens.measurement.machine.contention import co_tenants, foreign_processes, tenancy_facts
from twinlens.measurement.machine.energy import amd_meters, energy_facts, open_meters
from twinlens.measurement.machine.host import capture_host
from twinlens.measurement.machine.nvidia import board_of, gpu_facts
from twinlens.measurement.preflight import idle_gpu, memory
from twinlens.measurement.preflight.idle_gpu import (
    refuse_lacking_precision,
    refuse_unusable_gpu,
    torch_cuda,
    uses_gpu,
    why_unusable,
)
from twinlens.measurement.preflight.memory import refuse_what_cannot_fit
from twinlens.measurement.preflight.refuse import refuse_what_cannot_run
from twinlens.measurement.server.shared import boards_of
from twinlens.record.executor.record import ExecutorRecord
from twinlens.spec.device import asked_device
from twinlens.spec.precision import precision
from twinlens.system import gpu_driver
from twinlens.system.nvml import gpus_of
from twinlens.theory.parameter import parameters

A100, H100, GT = "NVIDIA A100-SXM4-80GB", "NVIDIA H100 80GB HBM3", "NVIDIA T400"


def test_a_server_gets_the_gpu_that_its_number_means_behind_the_mask() -> None:
    def given(device: str, mask: str | None) -> str | None:
        inherited = {} if mask is None else {"CUDA_VISIBLE_DEVICES": mask}
        return gpu_environment(asked_device(device), inherited).get("CUDA_VISIBLE_DEVICES")

    assert given("cuda:0", "2,3") == "2"
    assert given("cuda:1", "GPU-a, GPU-b") == "GPU-b"
    assert given("cuda:0", "MIG-x") == "MIG-x"
    assert given("cuda:3", None) == "3"
    assert given("cuda", "2,3") is None, "it inherits the mask as it is"
    assert given("cpu", "2") == ""
    assert visible_gpus({"CUDA_VISIBLE_DEVICES": "1,-1,2"}) == ["1"], "as CUDA reads it"
    with pytest.raises(BadInput, match="shows 2 GPUs") as caught:
        given("cuda:2", "2,3")
    assert caught.value.code == "TL208"
    assert [asked_device(name).kind for name in ("cuda:3", "cuda", "cpu", "auto")] == ["cuda", "cuda", "cpu", "auto"]


@pytest.mark.parametrize("kind", ["torch", "vllm", "transformers-serve"])
def test_a_number_beyond_the_last_gpu_is_refused_before_anything_begins(kind: str, machine: Any) -> None:
    machine(Board("GPU-a"), Board("GPU-b"))
    with pytest.raises(BadInput, match="'cuda:7', and 2 GPUs are here, numbered from 0") as caught:
        refuse_unusable_gpu(spec_of(inference(executor={"kind": kind, "device": "cuda:7"})))
    assert caught.value.code == "TL208"
    with pytest.raises(BadInput, match="is not one of auto, cpu, cuda, cuda:N"):
        refuse_unusable_gpu(spec_of(inference(executor={"kind": kind, "device": "cuda7"})))


def test_a_server_is_charged_with_the_boards_that_list_its_processes() -> None:
    gpus, _ = gpus_of(Machine(Board("GPU-a", pids=[7]), Board("GPU-b", pids=[7, 41]), Board("GPU-c", pids=[42])))
    assert boards_of([41, 42], gpus, "").value == ["GPU-b", "GPU-c"]
    assert boards_of([41, 42], gpus, "").capture == "observed"
    hidden = boards_of([99], gpus, "")
    assert hidden.value is None, "three boards, and none lists it"
    assert boards_of([99], gpus, "GPU-c").value == ["GPU-c"]
    assert boards_of([99], gpus[:1], "").value == ["GPU-a"]
    assert boards_of([99], gpus, "1").value is None, "CUDA's number is not NVML's"


def test_processes_of_a_launched_server_are_no_co_tenants() -> None:
    gpus, _ = gpus_of(Machine(Board("GPU-a", pids=[os.getpid(), 41])))
    assert foreign_processes(gpus, in_use=True) == 1
    assert foreign_processes(gpus, [41], in_use=True) == 0
    assert tenancy_facts(gpus, 0.01, [41], in_use=True)["tenancy.gpu_processes"].value == 0


def test_ids_of_another_namespace_tell_nothing_of_neighbours() -> None:
    gpus, _ = gpus_of(Machine(Board("GPU-a", pids=[os.getpid()]), Board("GPU-b", pids=[123456789])))
    assert foreign_processes(gpus) == 1, "a board that this run does not use has others' processes"
    assert foreign_processes(gpus, in_use=True) is None
    assert foreign_processes(gpus_of(Machine(Board("GPU-a", pids=[])))[0], in_use=True) is None
    facts = tenancy_facts(gpus, 0.01, in_use=True)
    assert "another namespace" in str(facts["tenancy.gpu_processes"].reason)
    assert co_tenants(0.01, None, True).source.endswith("limit 5%; GPU processes are unknown"), "nobody read them"
    assert co_tenants(0.01, 0, True).source.endswith("limit 5%, and GPU processes")
    assert co_tenants(0.01, None).source.endswith("limit 5%")


def test_a_run_on_the_processor_counts_no_gpu_processes(machine: Any) -> None:
    machine(Board("GPU-a", pids=[1, 2, 3]))
    facts = capture_host("cpu")
    assert facts["tenancy.gpu_processes"].value is None
    assert facts["accelerator.form_factor"].value == "processor"


def test_a_mig_slice_has_its_own_memory_and_its_boards_power(machine: Any) -> None:
    slice_ = Board("MIG-5", name=f"{A100} MIG 1g.10gb", free=8 << 30)
    library = machine(with_slices(Board("GPU-a", name=A100, free=60 << 30), slice_))
    for said in ("MIG-5", "GPU-5"):  # torch puts "GPU-" before the identifier of a slice too
        (gpu,), reason = gpus_of(library, [said])
        assert reason is None
        record = ExecutorRecord(gpu_facts([gpu], None))
        assert record.value("accelerator.product") == f"{A100} MIG 1g.10gb"
        assert record.value("accelerator.partition") == "MIG slice"
        assert record.value("accelerator.memory_bytes") == 18 << 30
        assert gpu.reading()["power_w"] == 350.0
        assert gpu.reading()["memory_used_bytes"] == 10 << 30
    meters = open_meters([gpu], Path("/nowhere"), boards=["MIG-5"])
    assert meters.meters == ()
    assert "covers neighbours too" in meters.why()


def test_boards_that_differ_are_counted_and_have_no_one_datasheet() -> None:
    gpus, _ = gpus_of(Machine(Board("GPU-a", name=A100), Board("GPU-b", name=GT), Board("GPU-c", name=A100)))
    product = gpu_facts(gpus, None)["accelerator.product"].value
    assert product == {A100: 2, GT: 1}
    assert datasheet_of(product, precision("bf16")) == {}
    assert datasheet_of(A100, precision("bf16"))["datasheet_flop_per_s"].value == 312e12


def test_a_refused_name_is_unknown_and_links_are_counted_to_the_librarys_own_end() -> None:
    gpus, _ = gpus_of(Machine(Board("GPU-a", name=None)))
    facts = gpu_facts(gpus, None)
    assert facts["accelerator.product"].value is None
    assert facts["interconnect.device_link"].value == "NVLink, 18 links active"
    assert gpus[0].links() == 36
    assert facts["power.clock_lock"].value == "application clock 1410 MHz, not 1980"


def test_what_a_board_refuses_is_never_the_word_none() -> None:
    gpus, _ = gpus_of(Machine(Board("GPU-a", name=None)))
    facts = gpu_facts(gpus, None)
    assert "None" not in {str(fact.value) for fact in facts.values() if fact.capture == "observed"}
    assert facts["interconnect.pcie_generation"].value is None, "this library answers no such query"
    assert "None" not in str(facts["interconnect.pcie_generation"].reason)


def test_energy_is_that_of_the_runs_own_scope_or_absent(tmp_path: Path) -> None:
    folder = tmp_path / "intel-rapl:0"
    folder.mkdir()
    for name, text in (("name", "package-0"), ("max_energy_range_uj", "1000000"), ("energy_uj", "5")):
        (folder / name).write_text(text)
    gpus, _ = gpus_of(Machine(Board("GPU-a", energy_mj=None)))
    meters = open_meters(gpus, tmp_path, boards=["GPU-a"])
    assert [meter.scope for meter in meters.meters] == ["package:0"], "the board has no counter"
    facts = energy_facts(meters, "gpu")
    assert facts["power.boundary"].value == "none"
    assert "no energy counter" in facts["power.boundary"].source
    assert energy_facts(meters, "package")["power.boundary"].value == ["processor package"]


def amd(*boards: tuple[str, str]) -> SimpleNamespace:
    """amdsmi's names over (uuid, bus address) of each board."""
    return SimpleNamespace(
        AmdSmiException=ValueError,
        amdsmi_init=lambda: None,
        amdsmi_get_processor_handles=lambda: list(range(len(boards))),
        amdsmi_get_gpu_device_uuid=lambda at: boards[at][0],
        amdsmi_get_gpu_device_bdf=lambda at: boards[at][1],
        amdsmi_get_energy_count=lambda at: {"energy_accumulator": 10 * at, "counter_resolution": 15.3},
    )


def test_only_the_amd_board_that_a_run_uses_is_charged() -> None:
    library = amd(("aa-1", "0000:03:00.0"), ("bb-2", "0000:43:00.0"))
    assert [meter.scope for meter in amd_meters(library, None)[0]] == ["gpu:aa-1", "gpu:bb-2"]
    assert [meter.scope for meter in amd_meters(library, ["GPU-BB-2"])[0]] == ["gpu:bb-2"]
    assert [meter.scope for meter in amd_meters(library, ["0000:03:00.0"])[0]] == ["gpu:aa-1"]
    assert amd_meters(library, ["GPU-x"]) == ((), "no AMD GPU of this run")
    assert open_meters((), Path("/nowhere"), boards=()).reasons["AMD SMI"] == "the run uses no GPU"


def test_the_memory_that_is_looked_at_is_that_of_the_board_the_run_will_use(machine: Any) -> None:
    library = machine(Board("GPU-a", free=1 << 20), Board("GPU-b", free=70 << 30))
    gpus, _ = gpus_of(library)
    small = inference(executor={"device": "cuda:0"})
    with pytest.raises(BadInput, match="the GPU has free") as caught:
        refuse_what_cannot_fit(spec_of(small))
    assert caught.value.code == "TL211"
    refuse_what_cannot_fit(spec_of(inference(executor={"device": "cuda:1"})))
    for mask, number, uuid in (("1", 0, "GPU-b"), ("1,0", 1, "GPU-a"), ("GPU-b", 0, "GPU-b")):
        board = board_of(asked_device(f"cuda:{number}"), gpus, {"CUDA_VISIBLE_DEVICES": mask})
        assert board is not None
        assert board.uuid == uuid


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_folder_that_the_host_cannot_read_is_refused_before_the_gpu_has_it(
    precision: str, machine: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine(*[Board(f"GPU-{number}", free=70 << 30) for number in range(4)])
    config = {"model_type": "llama", "vocab_size": 64, "hidden_size": 32, "intermediate_size": 64,
              "num_hidden_layers": 2, "num_attention_heads": 4, "max_position_embeddings": 128}  # fmt: skip
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "model.safetensors").write_bytes(b"")
    served, trained = (f(model=str(tmp_path), executor={"device": "cuda"}, point={"precision": precision})
                       for f in (inference, training))  # fmt: skip
    weights = parameters(spec_of(served).model.shape).total
    wide = {"fp32": 4, "bf16": 2}[precision]
    ranked = training("torch-parallel", str(tmp_path), executor={"device": "cuda"}, options={"ranks": 4})
    for asked, each in ((served, wide), (trained, 4), (ranked, 4)):  # once, however many ranks there are
        for free, refused in ((weights * each, False), (weights * each - 1, True)):
            monkeypatch.setattr(memory.psutil, "virtual_memory", lambda free=free: SimpleNamespace(available=free))
            with pytest.raises(BadInput, match="are read into the host's memory") if refused else nullcontext():
                refuse_what_cannot_fit(spec_of(asked))


@pytest.mark.parametrize(
    ("kind", "options", "rows"),
    [("torch-parallel", {"parallel": "fsdp2"}, 8), ("torch-parallel", {"parallel": "tp"}, 1),
     ("torch-deepspeed", {"stage": 3}, 8)],
    ids=["fsdp2", "tp", "zero 3"],
)  # fmt: skip
def test_8_billion_parameters_divided_over_eight_boards_of_80_gb_fit_them(
    kind: str, options: dict[str, Any], rows: int, machine: Any
) -> None:
    """One row a rank, compared on a twin, and no rank holds the whole: with the whole they needed 165 to 171 GiB."""
    point = {"precision": "bf16", "microbatch": 1}
    asked = training(kind, "llama-3.1-8b", options=options | {"ranks": 8}, executor={"device": "cuda"},
                     global_batch=rows, seq_len=2048, point=point)  # fmt: skip
    machine(*[Board(f"GPU-{number}", free=50 * 2**30) for number in range(8)])
    refuse_what_cannot_fit(spec_of(asked))
    machine(*[Board(f"GPU-{number}", free=24 * 2**30) for number in range(8)])
    with pytest.raises(BadInput, match="the GPU has free"):
        refuse_what_cannot_fit(spec_of(asked))


@pytest.mark.parametrize("kind", ["torch-parallel", "torch-deepspeed", "torch-collectives"])
def test_ranks_that_would_share_a_gpu_are_refused_before_anything_begins(
    kind: str, machine: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`check` said that they can be measured, and the first of them to be opened ended its study."""
    monkeypatch.setattr(idle_gpu, "torch_cuda", lambda: "13.0")

    def refuse(device: str, **options: Any) -> None:
        asked = training(kind, options={"ranks": 4} | options, executor={"device": device}, global_batch=8)
        if kind == "torch-collectives":
            asked["workload"] = {"kind": "collective", "exchange": "all-reduce", "size_bytes": 2**20}
        refuse_what_cannot_run(spec_of(asked))

    machine(*[Board(f"GPU-{number}") for number in range(2)])
    for device in ("cuda", "auto"):
        with pytest.raises(BadInput, match="4 ranks need a GPU each, and 2 are seen") as few:
            refuse(device)
        assert few.value.code == "TL208"
    refuse("cpu")
    machine(*[Board(f"GPU-{number}") for number in range(8)])
    refuse("cuda")
    with pytest.raises(BadInput, match=r"executor.device names one \(cuda:4\)"):
        refuse("cuda:4")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3")
    with pytest.raises(BadInput, match="one is seen, which has no link to another"):
        refuse("cuda")
    if kind != "torch-deepspeed":
        refuse("cuda", on="ray://local")
        with pytest.raises(BadInput, match="names one"):
            refuse("cuda:0", on="ray://local")


def test_a_board_that_cannot_be_told_beforehand_refuses_nothing(machine: Any) -> None:
    library = machine(Board("GPU-a", name=GT, free=1), Board("GPU-b", free=2))
    gpus, _ = gpus_of(library)
    assert board_of(asked_device("cuda:0"), gpus, {}) is None, "CUDA counts the fastest first, NVML by bus address"
    by_bus = board_of(asked_device("cuda:0"), gpus, {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"})
    assert by_bus is not None
    assert by_bus.uuid == "GPU-a"
    refuse_what_cannot_fit(spec_of(inference(executor={"device": "cuda:0"})))
    cut = gpus_of(machine(with_slices(Board("GPU-a", free=1), Board("MIG-5", free=2))))[0]
    assert board_of(asked_device("cuda:0"), cut, {}) is None


def test_auto_looks_at_host_memory_where_torch_cannot_use_the_gpu(machine: Any) -> None:
    machine(Board("GPU-a", free=1))
    assert torch_cuda() == "", "the torch of these tests is built without CUDA"
    refuse_what_cannot_fit(spec_of(inference(executor={"device": "auto"})))


def test_without_nvml_the_drivers_files_say_that_there_is_a_gpu(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Else fp8 was refused as on "the CPU", and a model was held against the host's memory."""
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(idle_gpu, "open_gpus", lambda: ((), "nvidia-ml-py is not installed"))
    monkeypatch.setattr(idle_gpu, "torch_cuda", lambda: "13.0")
    monkeypatch.setattr(gpu_driver, "_ROOT", tmp_path)
    auto = asked_device("auto")
    monkeypatch.setattr(idle_gpu, "has_nvml", lambda: False)
    assert not uses_gpu(auto), "no driver"
    (tmp_path / "proc/driver/nvidia").mkdir(parents=True)
    (tmp_path / "proc/driver/nvidia/version").write_text("NVRM version: NVIDIA UNIX Kernel Module  580.95.05\n")
    assert not uses_gpu(auto), "a container that was given none"
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/nvidia0").touch()
    assert uses_gpu(auto)
    refuse_lacking_precision(spec_of(inference(executor={"device": "auto"}, point={"precision": "fp8"})))
    monkeypatch.setattr(idle_gpu, "has_nvml", lambda: True)
    assert not uses_gpu(auto), "NVML is here and sees none"


def test_a_driver_that_is_too_old_is_named_with_what_to_do(machine: Any) -> None:
    old = gpus_of(machine(Board("GPU-a"), driver="535.104.05", cuda=12020))[0]
    sentence = why_unusable(old, "13.0")
    assert sentence is not None
    for word in ("535.104.05", "CUDA 12.2", "CUDA 13.0", "580.65", "built for CUDA 12"):
        assert word in sentence
    assert why_unusable(old, "12.8") is None, "one generation, whatever the minor version"
    assert why_unusable(old, None) is None
    assert "without CUDA" in str(why_unusable(old, ""))


def test_a_gpu_that_torch_cannot_use_is_refused_before_anything_begins(machine: Any) -> None:
    machine(Board("GPU-a"), Board("GPU-b"))
    with pytest.raises(BadInput, match=r"2 × NVIDIA H100 80GB HBM3 are here, but .*built without CUDA") as caught:
        refuse_unusable_gpu(spec_of(training(executor={"device": "cuda:1"})))
    assert caught.value.code == "TL208"
    refuse_unusable_gpu(spec_of(training(executor={"device": "cpu"})))


@pytest.mark.torch
def test_torchs_own_word_names_a_board_where_there_is_no_nvml() -> None:
    from twinlens.executors.torch.evidence.facts import properties_facts

    facts = properties_facts(
        SimpleNamespace(
            name=f"{A100} MIG 1g.10gb", major=8, minor=0, total_memory=10 << 30, multi_processor_count=14, uuid="5-6"
        )
    )
    record = ExecutorRecord(facts)
    assert record.value("accelerator.product") == f"{A100} MIG 1g.10gb"
    assert record.value("accelerator.partition") == "MIG slice"
    assert record.value("accelerator.uuid") == ["GPU-5-6"]
