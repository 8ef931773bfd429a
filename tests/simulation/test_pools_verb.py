"""`simulate` with pools of prefill and decode, and with energy: by hand, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import twinlens as tl
from simulated_material import LAW, measured_run, spec_of
from twinlens.api.simulating.simulate import SimulateResult
from twinlens.cli.main import app
from twinlens.record.samples import Sample
from twinlens.record.store import open_telemetry, read_run
from twinlens.simulation.fit.power import fitted_power, power_of, work_between
from twinlens.simulation.fit.steps import EngineSteps, recover
from twinlens.simulation.points.basis import pools_capacity
from twinlens.simulation.points.energy import Power, energy_of
from twinlens.simulation.points.fleet import Fleet
from twinlens.simulation.points.play import kv_token_bytes, play
from twinlens.simulation.rules import Rules

TABLE = 'fixed_s = 0.012\nrow_s = 0.0004\ntoken_s = 1e-4\nsource = "by hand"\n'
POWER = "idle_w = 100\nstep_j = 2.0\n"


@pytest.fixture(scope="module")
def laws(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """One that says no power, and one that does."""
    folder = tmp_path_factory.mktemp("law")
    plain, powered = folder / "plain.toml", folder / "powered.toml"
    plain.write_text(TABLE)
    powered.write_text(TABLE + POWER)
    return plain, powered


def simulated(law: Path, rate: float, **words: Any) -> SimulateResult:
    said: dict[str, Any] = {"seeds": 2, "dry": True, "set_": ["protocol.duration_s=5"], **words}
    return tl.simulate("chat", law=law, at=[f"rate_per_s={rate}"], **said)


def test_a_transfer_alone_takes_the_cache_of_its_prompt_over_the_link() -> None:
    spec = spec_of(0.02, seconds=200.0)
    played = play(spec, LAW, Rules(), fleet=Fleet(2, prefill=1, link_bytes_per_s=1e7))
    assert played.pools["transfer_s"] == pytest.approx(64 * kv_token_bytes(spec) / 1e7)
    assert played.pools["transfer_wait_s"] == pytest.approx(0.0, abs=1e-9)
    row = played.table.to_pylist()[0]
    first, second = np.diff([row["intended_ns"], *row["chunk_ns"]])[:2] / 1e9
    assert first == pytest.approx(0.012, abs=2e-9), "the prompt, by the first pool"
    assert second == pytest.approx(0.012 + played.pools["transfer_s"], abs=2e-9), "a step of the second pool"


def test_two_pools_say_what_each_and_the_link_did(laws: tuple[Path, Path]) -> None:
    found = simulated(laws[0], 8, pools="1+1,1+2", link="1GB/s", routing="shortest-queue", price="2")
    small, large = found.points
    assert small.policy == "pools of 1+1, shortest-queue"
    names = ("prefill_busy_share", "decode_busy_share", "transfer_s", "transfer_wait_s", "decode_queue_s")
    assert all(small.figures[name].value is not None for name in names)
    assert (large.figures["decode_busy_share"].value or 1) < (small.figures["decode_busy_share"].value or 0)
    assert (small.capacity, small.overloaded) != (None, None)
    shown = " ".join(repr(found).split())
    assert "one link of 1.00 GB/s, shared evenly" in shown
    assert "KV cache" in shown
    assert found.to_json()["points"][1]["fleet"]["prefill"] == 1
    assert "not known: " not in shown


def test_pools_serve_what_the_smaller_of_them_serves() -> None:
    prompts, outputs = np.full(10, 64), np.full(10, 16)
    rules = Rules(max_num_seqs=4, max_num_batched_tokens=64)
    prefill, step = pools_capacity(LAW, rules, prompts, outputs, 1, 100)
    assert prefill == pytest.approx(1 / 0.012), "one prompt fills a step of 10 ms and 2 ms a row"
    assert step.limit == "the prefill pool"
    decode, step = pools_capacity(LAW, rules, prompts, outputs, 100, 2)
    assert decode == pytest.approx(2 * 4 / (15 * 0.018)), "four rows a step, for 15 steps each"
    assert step.limit == "the decode pool"


@pytest.mark.parametrize(("words", "sentence"), [
    (("--pools", "2+4"), "--pools moves the KV cache of each prompt: say over what, as in --link 25GB/s"),
    (("--link", "25GB/s"), "--link carries KV cache between pools, and there are none: --pools 2+4"),
    (("--pools", "2+0", "--link", "25GB/s"), "a prefill pool without a decode pool answers nobody; give both"),
    (("--pools", "0+2", "--link", "25GB/s"), "a decode pool without a prefill pool answers nobody; give both"),
    (("--pools", "2", "--link", "25GB/s"), "so many replicas for prompts and so many for answers, as in 2+4"),
    (("--pools", "2+4", "--link", "25"), "--link '25' is no bandwidth; write --link 25GB/s"),
    (("--pools", "2+4", "--link", "1GB/s", "--replicas", "2"), "leave --replicas out"),
    (("--pools", "2+4", "--link", "1GB/s", "--batching", "engine:static(8)"), "engines that batch continuously"),
])  # fmt: skip
def test_pools_without_sense_are_refused_in_one_sentence(
    laws: tuple[Path, Path], words: tuple[str, ...], sentence: str
) -> None:
    told = CliRunner().invoke(app, ["simulate", "chat", "--law", str(laws[0]), *words])
    assert told.exit_code == 2, told.output
    assert sentence in " ".join(told.stderr.split())
    assert told.stdout == ""


def test_energy_is_idle_watts_and_joules_of_steps_and_of_tokens() -> None:
    power = Power(100.0, 2.0, 0.5)
    assert power.joules(10.0, 3, 40, 80) == 100 * 10 * 3 + 2 * 40 + 0.5 * 80
    played = play(spec_of(0.1, seconds=30.0), LAW, Rules())
    count = played.table.num_rows
    assert played.steps == 16 * count, "alone, each has a step for its prompt and one for each further token"
    found = energy_of(played, power, 1)
    spent_j = 100 * played.span_s + 2 * 16 * count + 0.5 * 80 * count
    assert found["energy_per_request_j"] == pytest.approx(spent_j / count)
    assert found["energy_per_output_token_j"] == pytest.approx(spent_j / (16 * count))
    assert found["mean_power_w"] == pytest.approx(spent_j / played.span_s)


def test_fleets_say_their_energy_where_a_law_has_power_and_why_not_where_none_has(laws: tuple[Path, Path]) -> None:
    plain, powered = (simulated(law, 8, replicas="1,4", seeds=1) for law in laws)
    small, large = (each.figures["energy_per_output_token_j"].value or 0.0 for each in powered.points)
    assert large > small > 0, "four replicas wait for more of their time"
    assert "J an output token" in " ".join(repr(powered).split())
    assert powered.to_json()["power"]["idle_w"] == 100
    assert "the law says no power" in " ".join(repr(plain).split())
    assert "energy_per_output_token_j" not in plain.points[0].figures
    faster = simulated(laws[1], 8, replicas=2, seeds=1, set_=["protocol.duration_s=5", "bandwidth*2"])
    assert "the power is that of the machine as it was" in " ".join(repr(faster).split())


def test_a_table_with_half_a_power_is_refused(tmp_path: Path) -> None:
    (tmp_path / "law.toml").write_text(TABLE + "step_j = 2.0\n")
    told = CliRunner().invoke(app, ["simulate", "chat", "--law", str(tmp_path / "law.toml")])
    assert told.exit_code == 2
    assert "a law that says step_j says idle_w too" in " ".join(told.stderr.split())


def test_power_is_learnt_from_a_counter_that_steps_and_tokens_move() -> None:
    random = np.random.default_rng(1)
    count = 4000
    end_s = np.cumsum(random.uniform(0.01, 0.05, count))
    rows, tokens = random.integers(1, 30, count).astype(float), random.integers(0, 200, count).astype(float)
    nothing = np.zeros(count)
    steps = EngineSteps(end_s, nothing, rows, nothing, tokens, nothing, nothing.astype(int), nothing > 0, 0, 0, 0, 1)
    work = work_between(steps, np.arange(0.0, 100.0))
    assert work[:, 1].sum() == np.searchsorted(end_s, 99.0)
    spent_j = work @ [90.0, 3.0, 0.1] + random.normal(0, 1.0, len(work))
    found = fitted_power(work, spent_j)
    assert found.power is not None
    assert [found.power.idle_w, found.power.step_j, found.power.token_j] == pytest.approx([90, 3, 0.1], rel=0.15)
    means = [each.joules(1.0, 1, *work[:, 1:].mean(axis=0)) for each in found.draws]
    assert np.quantile(means, 0.05) <= spent_j.mean() <= np.quantile(means, 0.95)
    assert found.power.origin == "fitted"


def test_runs_with_a_counter_teach_power_and_runs_without_say_why_not(tmp_path: Path) -> None:
    spec = spec_of(12.0, seconds=60.0)
    table = play(spec, LAW, Rules()).table
    silent = measured_run(tmp_path / "silent", table, spec)
    steps = recover(silent.requests, Rules())
    assert power_of([(silent, steps)]).absent.startswith("not measured: ")
    run = measured_run(tmp_path / "counted", table, spec)
    times_s = np.arange(0.0, 70.0, 0.05)
    place = np.searchsorted(steps.end_s, times_s)
    tokens = np.concatenate([[0.0], np.cumsum(steps.rows + steps.tokens)])[place]
    writer = open_telemetry(run.folder)
    writer.add_all(
        Sample(round(at_s * 1e9), "package:0", energy_mj=round(1e3 * joules))
        for at_s, joules in zip(times_s.tolist(), (90 * times_s + 3 * place + 0.1 * tokens).tolist(), strict=True)
    )
    writer.close()
    found = power_of([(read_run(run.folder), steps)])
    assert found.power is not None, found.absent
    assert found.power.joules(60.0, 1, 3000, 20_000) == pytest.approx(90 * 60 + 3 * 3000 + 0.1 * 20_000, rel=0.02)
