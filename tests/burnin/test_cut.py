"""A turn is cut into windows by the time at which things happened, and digests tell one bit from another."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.burnin.driving import driven, folder_of, means, refuse_unsound, training

from twinlens.acceptance.driving.all_reduce import at_size
from twinlens.acceptance.driving.counters import Reading
from twinlens.acceptance.driving.cut import windows_of
from twinlens.acceptance.driving.device_figures import figures
from twinlens.acceptance.driving.products import in_own_process
from twinlens.acceptance.driving.repeated_work import excluded, loss_digests, steps_compared
from twinlens.acceptance.driving.workloads import candidates, turn_of
from twinlens.errors import BadInput
from twinlens.measurement.machine.probe import CollectiveFit
from twinlens.record.arrow import batch_of
from twinlens.record.estimate import Estimate
from twinlens.record.run import Run
from twinlens.record.samples import TELEMETRY_SCHEMA, Sample
from twinlens.record.store import find_runs
from twinlens.spec.load import parse
from twinlens.spec.protocol import Kill
from twinlens.stats.estimator.latency_bandwidth import Segment


@pytest.fixture(scope="module")
def turn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("cut")
    driven(out, training(noise=0.1), for_="30s", turn="30s")
    return folder_of(out) / "turn-00001"


@settings(max_examples=30)  # each cuts the whole turn again
@given(window_s=st.floats(0.7, 29.0))
def test_windows_of_any_length_share_out_all_work_in_them(turn: Path, window_s: float) -> None:
    run = find_runs(turn)[0]
    windows = windows_of(turn, window_s, 1)
    assert len(windows) == int(run.steps.end_ns[-1] / 1e9 // window_s)
    covered = len(windows) * window_s
    whole = int((run.steps.end_ns / 1e9 <= covered).sum())
    assert sum(each.work for each in windows) == whole
    done = sum((each.rate_per_s or 0) * each.seconds for each in windows)
    assert whole <= done + 1e-6 < whole + 1 + 1e-3


def test_a_run_that_was_cut_off_gives_whole_windows_and_no_part(turn: Path) -> None:
    run = next(turn.glob("*/run.json"))
    known = run.read_text()
    try:
        run.write_text(json.dumps(json.loads(known) | {"state": "interrupted"}))
        assert windows_of(turn, 100.0, 1) == ()
        assert len(windows_of(turn, 20.0, 7)) == 1
    finally:
        run.write_text(known)
    assert [each.number for each in windows_of(turn, 100.0, 7)] == [7]


def test_one_bit_of_one_loss_makes_another_digest(turn: Path) -> None:
    run = find_runs(turn)[0]
    before = {name: digest for name, _, digest in loss_digests(run, on_processor=True)}
    assert set(before) == {"loss of the first step", "loss of steps 1 to 8", "loss of steps 1 to 64"}
    run.steps.loss[40] = np.nextafter(run.steps.loss[40], 9.0)
    after = {name: digest for name, _, digest in loss_digests(run, on_processor=True)}
    assert {name for name in before if after[name] != before[name]} == {"loss of steps 1 to 64"}


def test_on_a_gpu_only_the_first_loss_is_compared_and_the_rest_is_named() -> None:
    spec = turn_of(training(), 10.0)
    assert steps_compared(spec, on_processor=False) == (1,)
    assert "add in an order that varies" in excluded(spec, on_processor=False)
    assert excluded(spec, on_processor=True) == ""


def _run_with(*samples: Sample) -> Run:
    run = object.__new__(Run)
    table = pa.Table.from_batches([batch_of([each.to_row() for each in samples], TELEMETRY_SCHEMA)])
    run.__dict__["telemetry"] = table
    return run


def test_throttling_of_a_board_is_the_share_of_its_samples_by_reason() -> None:
    at = [
        Sample(second * 10**9, "gpu:GPU-a", sm_mhz=1000.0 + second, temperature_c=60.0 + second, power_w=300.0,
               throttle_bits=bits)
        for second, bits in enumerate((0, 0x4, 0x24, 0x1))
    ]  # fmt: skip
    found = figures(_run_with(*at), "gpu:GPU-a", 0.0, 4.0)
    assert found.throttled == {"software power cap": 0.5, "software thermal slowdown": 0.25}
    assert (found.clock_hz, found.temperature_c, found.power_w) == (1001.5e6, 63.0, 300.0)
    later = figures(_run_with(*at), "gpu:GPU-a", 2.0, 3.0)
    assert later.throttled == {"software power cap": 1.0, "software thermal slowdown": 1.0}
    assert set(figures(_run_with(*at), "gpu:GPU-a", 9.0, 10.0).missing) == {
        "clock",
        "temperature",
        "power",
        "throttled",
    }
    assert figures(_run_with(*at), "gpu:GPU-b", 0.0, 4.0).has_not == ("clock", "power", "throttled")


def test_power_of_all_packages_adds_up_or_is_missing_with_its_reason() -> None:
    both = [Sample(at * 10**9, f"package:{n}", energy_mj=at * 1000 * (50 + n)) for at in range(3) for n in range(2)]
    host = Sample(0, "host", cpu_mhz=2400.0)
    assert figures(_run_with(host, *both), "cpu", 0.0, 3.0).power_w == pytest.approx(101.0)
    alone = figures(_run_with(host), "cpu", 0.0, 3.0)
    assert alone.power_w is None
    assert "energy counter" in alone.missing["power"]
    assert alone.clock_hz == 2.4e9


def test_throttling_of_a_core_is_the_share_of_intervals_in_which_its_counter_rose(tmp_path: Path) -> None:
    totals = iter([0, 0, 5, 5, 5, 9])

    def read() -> tuple[Reading, ...]:
        return (Reading("cpu", {"core_throttles": next(totals, 9), "package_throttles": 0}),)

    by = means(counters=read)
    slow = type(by)(by.products, by.counters, period_s=0.2)
    driven(tmp_path, training(pace=1, step_s=0.01), for_="1s", turn="1s", window="1s", by=slow)
    (window,) = refuse_unsound(tmp_path)
    assert 0 < window.devices[0].throttled["thermal throttling of a core"] <= 1


def test_exchanges_have_a_rate_for_each_rank_and_the_time_of_the_slowest(tmp_path: Path) -> None:
    study = parse({"name": "ring", "executor": {"kind": "fake"}, "protocol": {"isolate": False},
                   "workload": {"kind": "collective", "exchange": "all-reduce", "size_bytes": 1 << 20}})  # fmt: skip
    driven(tmp_path, study, for_="20s", turn="20s")
    window = refuse_unsound(tmp_path)[0]
    slowest_s = 1e-3 + (1 << 20) / 1e9
    assert window.exchanges[0].seconds == pytest.approx(slowest_s, rel=1e-6)
    rates = {each.device: each.rate for each in window.devices if each.rate}
    assert rates["rank:1"] == pytest.approx(1 / slowest_s, rel=1e-6)
    assert rates["rank:0"] == pytest.approx(1 / (0.9 * slowest_s), rel=1e-6)


def test_a_fit_is_that_of_the_segment_that_holds_the_size() -> None:
    def known(value: float) -> Estimate:
        return Estimate(value, "s", "by hand", "measured", n=1)

    small = Segment(1e3, 1e5, known(1e-5), known(1e9), 0.01)
    large = Segment(1e5, 1e8, known(1e-4), known(2e10), 0.01)
    fit = at_size(CollectiveFit("all-reduce", (small, large), None), 1_000_000, 1.5)
    assert fit is not None
    assert (fit.latency_s, fit.bytes_per_s) == (1e-4, pytest.approx(2e10 / 1.5))
    assert at_size(CollectiveFit("all-reduce", (), "no line"), 1_000_000, 1.5) is None


def test_candidates_are_of_both_lenses_and_one_point_each() -> None:
    turns = [turn_of(study, 60.0) for study in candidates(())]
    assert [each.lens for each in turns] == ["training", "inference", "inference"]
    assert len({each.name for each in turns}) == 3
    assert all(each.protocol.guards for each in turns[1:])
    assert {(each.protocol.repeats, each.protocol.extend, each.protocol.retakes) for each in turns} == {(1, 0, 0)}


def test_on_several_gpus_each_works_alone_and_all_train_together() -> None:
    gpus = [SimpleNamespace(ask=lambda name: SimpleNamespace(free=80e9)) for _ in range(2)]
    studies = candidates(gpus)  # type: ignore[arg-type]
    assert len({each.name for each in studies}) == len(studies) == 7
    together, *alone = studies
    assert (together.executor.kind, together.executor.options["ranks"]) == ("torch-parallel", 2)
    assert together.workload.global_batch % 2 == 0  # type: ignore[union-attr]
    assert {(each.executor.device, each.lens) for each in alone} == {
        (f"cuda:{place}", lens) for place in (0, 1) for lens in ("training", "inference")
    }


def test_a_fault_that_a_spec_puts_in_is_refused() -> None:
    faulty = training().model_copy(
        update={"protocol": training().protocol.model_copy(update={"kill": Kill(at_step=5)})}
    )
    with pytest.raises(BadInput, match="puts a fault into what is tested"):
        turn_of(faulty, 10.0)


@pytest.mark.torch
def test_products_are_the_same_in_another_process() -> None:
    first, why = in_own_process()
    assert why == ""
    assert in_own_process()[0] == first
    assert set(first["cpu"]) == {"product fp32", "product bf16"}
