"""The sampler on this machine, and over recorded GPU answers."""

from __future__ import annotations

import subprocess
import sys
import threading
from types import SimpleNamespace
from typing import Any

from twinlens.clock import VirtualClock
from twinlens.measurement.machine.energy import Meters
from twinlens.measurement.machine.telemetry import Sampler
from twinlens.record.samples import COLUMNS, Sample
from twinlens.system.nvml import Gpu


class Refused(Exception):
    """What NVML raises."""


GPU = Gpu(
    SimpleNamespace(
        NVMLError=Refused,
        nvmlDeviceGetUUID=lambda _: "GPU-7",
        nvmlDeviceGetPowerUsage=lambda _: 250000,
        nvmlDeviceGetTotalEnergyConsumption=lambda _: 42,
    ),
    handle=0,
)


def test_rows_of_the_host_and_of_each_gpu_have_every_column() -> None:
    clock = VirtualClock(1_000)
    sampler = Sampler(lambda rows: None, [GPU], start_ns=400, clock=clock)
    host, gpu = sampler.read()
    assert list(host) == list(gpu) == list(COLUMNS)
    assert (host["source"], host["time_ns"]) == ("host", 600)
    assert host["rss_bytes"] > 2**20
    assert (gpu["source"], gpu["power_w"], gpu["energy_mj"]) == ("gpu:GPU-7", 250.0, 42)
    assert gpu["temperature_c"] is None  # never answered


def test_the_processes_of_a_launched_server_have_a_row_of_their_own_while_they_live() -> None:
    code = "print(flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        assert server.stdout is not None
        server.stdout.readline()  # it runs: before, it is hardly larger than nothing
        _, row = Sampler(lambda rows: None, server_pids=[server.pid]).read()
        server.kill()
    assert (row["source"], row["cpu_busy"]) == ("server", None)
    assert row["rss_bytes"] > 2**20
    assert [row["source"] for row in Sampler(lambda rows: None, server_pids=[server.pid]).read()] == ["host"]


class Package:
    """A package counter that has gone two joules."""

    scope, period_s = "package:0", 0.001

    now = 2.0

    def joules(self) -> float | None:
        return self.now


def test_a_package_counter_has_a_row_of_its_own() -> None:
    sampler = Sampler(lambda rows: None, meters=Meters((Package(),), {}))
    _, package = sampler.read()
    assert (package["source"], package["energy_mj"], package["rss_bytes"]) == ("package:0", 2000, None)


def test_a_board_that_is_sampled_is_not_counted_twice() -> None:
    class SameBoard(Package):
        scope = "gpu:GPU-7"

    rows = Sampler(lambda rows: None, [GPU], meters=Meters((Package(), SameBoard()), {})).read()
    assert [row["source"] for row in rows if row["energy_mj"] is not None] == ["gpu:GPU-7", "package:0"]


def test_what_others_drew_while_a_point_waited_lies_between_two_readings_of_its_counter() -> None:
    meter, rows, first = Package(), [], threading.Event()

    def sink(found: list[dict[str, Any]]) -> None:
        rows.extend(found)
        first.set()

    with Sampler(sink, period_s=3600, meters=Meters((meter,), {})) as sampler:
        assert first.wait(10)
        for joules, at in ((5.0, sampler.pause), (100.0, sampler.resume), (107.0, sampler.pause)):
            meter.now = joules
            at()
    assert [row["energy_mj"] for row in rows if row["source"] == "package:0"][1:] == [5_000, 100_000, 107_000]
    of_host = [row for row in rows if row["source"] == "host"]
    assert of_host[2]["cpu_busy"] is None, "ratios count from the turn's begin"
    assert of_host[2]["foreign_cpu"] is None


def test_without_a_counter_a_turn_begins_without_a_reading() -> None:
    rows: list[dict[str, Any]] = []
    first = threading.Event()

    def sink(found: list[dict[str, Any]]) -> None:
        rows.extend(found)
        first.set()

    with Sampler(sink, period_s=3600) as sampler:
        assert first.wait(10)
        sampler.pause()
        sampler.resume()
        sampler.pause()
    assert len(rows) == 3, "the first, and one at the end of each turn"


def test_the_first_row_has_no_ratio_and_later_ones_are_ratios() -> None:
    sampler = Sampler(lambda rows: None)
    first = Sample(**sampler.read()[0])
    assert first.cpu_busy is None
    for _ in range(2000):
        later = Sample(**sampler.read()[0])
        if later.cpu_busy is not None:
            break
    assert later.cpu_busy is not None
    assert later.host_busy is not None
    assert 0 <= later.cpu_busy <= 1
    assert 0 <= later.host_busy <= 1


def test_the_thread_delivers_until_it_is_closed_and_reports_its_cost() -> None:
    rows: list[dict[str, Any]] = []
    enough = threading.Event()

    def sink(found: list[dict[str, Any]]) -> None:
        rows.extend(found)
        if len(rows) >= 3:
            enough.set()

    with Sampler(sink, period_s=0.001) as sampler:
        assert enough.wait(10)
    assert sampler.error is None
    assert sampler.samples == len(rows)
    times = [row["time_ns"] for row in rows]
    assert times == sorted(times)
    cost = sampler.cost().value
    assert cost is not None
    assert 0 < cost < 1


def test_a_sample_that_cost_more_than_its_share_is_followed_by_a_longer_pause() -> None:
    many = threading.Event()
    rare = Sampler(lambda rows: None, period_s=0.001, most_share=1e-9)
    often = Sampler(lambda rows: many.set() if often.samples >= 5 else None, period_s=0.001, most_share=1e9)
    with rare, often:
        assert many.wait(60)
        assert rare.samples <= 1


def test_a_sink_that_fails_ends_the_sampling_and_not_the_run() -> None:
    def full(_: list[dict[str, Any]]) -> None:
        raise OSError("disk full")

    with Sampler(full, period_s=0.001) as sampler:
        pass
    assert sampler.error == "OSError: disk full"
    assert sampler.cost().value is None
