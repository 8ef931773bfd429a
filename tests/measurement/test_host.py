"""Facts from a recorded machine in a folder, from this machine, and from recorded NVML answers."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinlens.measurement.machine.contention import CpuReading, co_tenants, foreign_processes, shares
from twinlens.measurement.machine.host import capture_host, host_facts
from twinlens.measurement.machine.nvidia import gpu_facts
from twinlens.measurement.machine.software import loaded_libraries, performance_environment, software_facts
from twinlens.record.codec import decode, encode
from twinlens.record.executor.record import FIELDS, ExecutorRecord, observed
from twinlens.system.nvml import gpus_of


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


@pytest.fixture
def two_sockets(tmp_path: Path) -> Path:
    cpu = "sys/devices/system/cpu"
    return write(
        tmp_path,
        {
            "proc/cpuinfo": "vendor_id\t: GenuineIntel\n"
            "model name\t: Xeon 8480+\nflags\t\t: fpu avx512f amx_tile amx_bf16\n",
            "proc/self/cgroup": "0::/slice\n",
            f"{cpu}/cpu0/topology/physical_package_id": "0\n",
            f"{cpu}/cpu1/topology/physical_package_id": "1\n",
            f"{cpu}/cpu0/cache/index3/level": "3\n",
            f"{cpu}/cpu0/cache/index3/size": "107520K\n",
            f"{cpu}/cpu0/cpufreq/scaling_governor": "performance\n",
            f"{cpu}/cpu0/cpufreq/cpuinfo_max_freq": "3800000\n",
            "sys/devices/system/node/node0/x": "",
            "sys/devices/system/node/node1/x": "",
            "sys/fs/cgroup/slice/cpu.max": "150000 100000\n",
            "sys/fs/cgroup/slice/memory.max": "max\n",
            "etc/os-release": 'PRETTY_NAME="Debian 12"\n',
            "run/.containerenv": f'engine="podman-4"\nimageid="{"a" * 64}"\n',
        },
    )


def test_a_recorded_machine_is_read_as_it_stands(two_sockets: Path) -> None:
    record = ExecutorRecord(host_facts(two_sockets))
    expected = {
        "host.cpu.model": "Xeon 8480+",
        "host.cpu.sockets": 2,
        "host.cpu.isa": ["avx512f", "amx_tile", "amx_bf16"],
        "host.cpu.l3_bytes": 107520 * 1024,
        "host.cpu.governor": "performance",
        "host.cpu.max_mhz": 3800.0,
        "host.numa_nodes": 2,
        "host.cgroup.cpu_limit": 1.5,
        "host.cgroup.memory_limit_bytes": "none",
        "host.os": "Debian 12",
        "host.virtualisation": "none seen",
        "host.container": "podman",
        "host.container_digest": "sha256:" + "a" * 64,
    }
    assert {key: record.value(key) for key in expected} == expected


def test_version_one_control_groups_and_a_hypervisor_are_seen(tmp_path: Path) -> None:
    root = write(
        tmp_path,
        {
            "proc/cpuinfo": "model name\t: EPYC\nflags\t: avx2 hypervisor\n",
            "proc/self/cgroup": "4:memory:/box\n1:cpu:/\n",
            "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n",
            "sys/fs/cgroup/memory/box/memory.limit_in_bytes": "9223372036854771712\n",
            "sys/class/dmi/id/sys_vendor": "QEMU\n",
        },
    )
    record = ExecutorRecord(host_facts(root))
    assert record.value("host.cgroup.cpu_limit") == "none"
    assert record.value("host.cgroup.memory_limit_bytes") == "none"
    assert record.value("host.virtualisation") == "virtual machine (QEMU)"


def test_an_empty_machine_is_unknown_everywhere_with_reasons(tmp_path: Path) -> None:
    facts = host_facts(tmp_path)
    for key in ("host.cpu.isa", "host.cpu.governor", "host.cgroup.cpu_limit", "host.container_digest"):
        assert facts[key].capture == "unknown"
        assert facts[key].reason


def test_this_machine_is_captured_whole_and_its_identity_is_stable() -> None:
    first, second = (ExecutorRecord(capture_host("cpu") | software_facts()) for _ in range(2))
    assert first.hash() == second.hash()
    assert first.value("accelerator.product") == first.value("host.cpu.model")
    assert first.value("host.memory_bytes") > 2**28
    assert first.value("tenancy.co_tenants") in ("seen", "none seen")


def test_only_variables_that_change_speed_are_kept_and_paths_are_hidden() -> None:
    environment = performance_environment(
        {
            "OMP_NUM_THREADS": "2",
            "LD_PRELOAD": f"{Path.home()}/x.so:/usr/lib/libjemalloc.so.2",
            "API_KEY": "secret",
            "TORCHINDUCTOR_CACHE_DIR": "/home/anna/cache",
            "XLA_FLAGS": "--dump_to=/home/anna/x --fast=1",
            "MY_OMP_X": "1",
        }
    )
    assert environment == {
        "LD_PRELOAD": "…/x.so:…/libjemalloc.so.2", "OMP_NUM_THREADS": "2", "TORCHINDUCTOR_CACHE_DIR": "a path",
        "XLA_FLAGS": "--dump_to=a path --fast=1",
    }  # fmt: skip


def test_paths_that_an_earlier_version_recorded_are_not_read() -> None:
    paths = {"TORCHINDUCTOR_CACHE_DIR": "/home/anna/cache", "OMP_NUM_THREADS": "2"}
    read = decode(ExecutorRecord, {"software.environment": encode(observed(paths, "os.environ"))})
    assert read.value("software.environment") == {"TORCHINDUCTOR_CACHE_DIR": "a path", "OMP_NUM_THREADS": "2"}


def test_libraries_are_read_from_the_memory_map(tmp_path: Path) -> None:
    maps = tmp_path / "maps"
    maps.write_text(
        "7f0-7f1 r-xp 0 fe:00 1   /a/libcublas.so.12\n7f1-7f2 r-xp 0 fe:00 2   /a/libcublasLt.so.12\n"
        "7f2-7f3 r-xp 0 fe:00 3   /a/libgomp.so.1\n"
        "7f4-7f5 r-xp 0 fe:00 4   /b/libgomp-1d.so.1\n7f6-7f7 rw-p 0 0 0 [heap]\n"
    )
    assert loaded_libraries([maps], "maps of a server").value == {
        "openmp": ["libgomp-1d.so.1", "libgomp.so.1"],
        "cublas": ["libcublas.so.12"],
        "cublaslt": ["libcublasLt.so.12"],
    }
    assert loaded_libraries([tmp_path / "none"], "").capture == "unknown"


def test_shares_of_the_processor_by_hand() -> None:
    before, after = CpuReading(10.0, 100.0, 1.0), CpuReading(13.0, 104.0, 3.0)
    assert shares(before, after) == (0.5, 0.75, 0.25)
    assert shares(before, before) is None


@given(*[st.floats(0, 1e6)] * 3)
def test_shares_are_ratios_whatever_the_ticks_do(busy: float, total: float, own: float) -> None:
    found = shares(CpuReading(0, 0, 0), CpuReading(busy, total, own))
    assert found is None or all(0 <= share <= 1 for share in found)


def test_co_tenants_are_seen_on_the_processor_or_the_gpu() -> None:
    assert co_tenants(0.01, None).value == "none seen"
    assert co_tenants(0.5, None).value == "seen"
    assert co_tenants(0.0, 2).value == "seen"
    assert co_tenants(None, None).capture == "unknown"


class Refused(Exception):
    """What NVML raises."""


def links_of_an_h100(_: Any, link: int) -> int:
    if link >= 18:
        raise Refused("Invalid Argument")
    return 1


def recorded_nvml(**changed: Any) -> SimpleNamespace:
    """Answers as an H100 gives them, by NVML's names; None stands for a refusal."""
    answers: dict[str, Any] = {
        "DeviceGetUUID": "GPU-1234",
        "DeviceGetName": "NVIDIA H100 80GB HBM3",
        "DeviceGetMemoryInfo": SimpleNamespace(total=85520809984, used=2**30),
        "DeviceGetEccMode": [1, 1],
        "DeviceGetCudaComputeCapability": (9, 0),
        "DeviceGetArchitecture": 9,
        "DeviceGetMigMode": [0, 0],
        "DeviceGetEnforcedPowerLimit": 700000,
        "DeviceGetPowerUsage": 350500,
        "DeviceGetTotalEnergyConsumption": 5000,
        "DeviceGetUtilizationRates": SimpleNamespace(gpu=40),
        "DeviceGetTemperature": 55,
        "DeviceGetClockInfo": 1980,
        "DeviceGetCurrentClocksEventReasons": 4,
        "DeviceGetComputeRunningProcesses": [SimpleNamespace(pid=os.getpid()), SimpleNamespace(pid=1)],
        "SystemGetDriverVersion": "580.65",
        "SystemGetCudaDriverVersion_v2": 13000,
        **changed,
    }

    def answer(value: Any) -> Any:
        def query(*_: Any) -> Any:
            if value is None:
                raise Refused("Not Supported")
            return value

        return query

    queries = {f"nvml{name}": answer(value) for name, value in answers.items()}
    queries |= {
        "nvmlDeviceGetNvLinkState": links_of_an_h100,
        "nvmlInit": lambda: None,
        "nvmlDeviceGetCount": lambda: 1,
        "nvmlDeviceGetHandleByIndex": lambda i: i,
    }
    return SimpleNamespace(NVMLError=Refused, **queries)


def test_recorded_gpu_answers_become_facts() -> None:
    gpus, reason = gpus_of(recorded_nvml())
    record = ExecutorRecord(gpu_facts(gpus, reason))
    expected = {
        "accelerator.product": "NVIDIA H100 80GB HBM3",
        "accelerator.architecture": "compute capability 9.0 (Hopper)",
        "accelerator.memory_bytes": 85520809984,
        "accelerator.ecc": True,
        "accelerator.partition": "none",
        "power.limit_w": 700.0,
        "thermal.throttle": 4,
        "interconnect.device_link": "NVLink, 18 links active",
        "software.driver.version": "580.65",
        "software.cuda_driver.version": "13.0",
    }
    assert {key: record.value(key) for key in expected} == expected
    assert record.facts["interconnect.pcie_lanes"].capture == "unknown"  # not among the answers


def test_a_refused_query_is_unknown_and_never_zero() -> None:
    gpus, _ = gpus_of(recorded_nvml(DeviceGetPowerUsage=None, DeviceGetEccMode=None))
    assert gpus[0].reading()["power_w"] is None
    assert gpu_facts(gpus, None)["accelerator.ecc"].capture == "unknown"


def test_gpus_are_chosen_by_uuid() -> None:
    assert len(gpus_of(recorded_nvml(), ["1234"])[0]) == 1
    found, reason = gpus_of(recorded_nvml(), ["GPU-other"])
    assert (found, reason) == ((), "NVML sees no such GPU")
    assert gpu_facts(found, reason)["accelerator.product"].reason == "NVML sees no such GPU"


def test_processes_on_the_gpu_that_are_not_ours_are_counted() -> None:
    assert foreign_processes(gpus_of(recorded_nvml())[0]) == 1
    assert foreign_processes(gpus_of(recorded_nvml(DeviceGetComputeRunningProcesses=None))[0]) is None


def test_every_captured_field_is_in_the_table(two_sockets: Path) -> None:
    gpus, _ = gpus_of(recorded_nvml())
    assert set(gpu_facts(gpus, None)) | set(host_facts(two_sockets)) | set(software_facts()) <= set(FIELDS)
