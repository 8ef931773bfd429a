"""`twinlens measure --url`: a server that is up, no file, no catalogue model; and what is said where it cannot be."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from plain_server import Plain, plain, stream
from twinlens.api.measuring.spec_asked import study_of
from twinlens.api.questions import Measure
from twinlens.cli.main import app
from twinlens.measurement.attach import attach
from twinlens.measurement.preflight.check import expected_s
from twinlens.measurement.quick import quick
from twinlens.network.null_server import null_server
from twinlens.record.store import find_runs
from twinlens.schedule.build import planned_load
from twinlens.spec.load import load
from twinlens.spec.study import Study

DURATION = "protocol.duration_s=33"
SHORT = ["protocol.duration_s=0.5", "protocol.steady_s=0", "protocol.isolate=false", "protocol.retakes=0"]
SMALL = [*SHORT, "workload.output_tokens.value=4"]


def call(*words: str | Path) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words])


def with_settings(settings: list[str]) -> list[str]:
    return [word for setting in settings for word in ("--set", setting)]


def test_one_command_measures_a_server_that_is_up(tmp_path: Path) -> None:
    with null_server(0.01, 0.001) as server:
        host = server.url.removeprefix("http://").removesuffix("/v1")
        done = call("measure", "--url", host, "--at", "rate_per_s=20,40", "--out", tmp_path, *with_settings(SMALL))
    assert done.exit_code == 0, done.stderr
    lines = done.stderr.splitlines()
    assert lines[0] == f"null at {server.url}"
    assert lines[1].startswith("256 tokens in, 4 out; poisson arrivals at 20, 40/s; 2 runs of 0.5 s")
    assert "p99 needs 368 requests" in lines[2]
    assert "null" in done.stdout
    assert "fp32" not in done.stdout
    runs = find_runs(tmp_path)
    assert {run.spec.point.rate_per_s for run in runs} == {20, 40}
    for run in runs:
        assert run.state == "finished"
        assert run.spec.workload.model == "null"
        assert run.folder.parent.name.split("_")[1] == "null"
        assert "_as-served_" in run.folder.name
    again = load(runs[0].folder.parent)
    assert [one.fingerprint() for one in again.point_runs()] == [
        one.fingerprint() for one in sorted((run.spec for run in runs), key=lambda spec: spec.point.rate_per_s or 0)
    ]


def test_an_address_in_place_of_a_spec_and_an_example_on_a_server(tmp_path: Path) -> None:
    with plain(Plain()) as server:
        assert attach(server.url).point_runs()[0].workload.arrival.kind == "closed"  # type: ignore[union-attr]
        study = attach(server.url, "chat")
        assert study.executor.kind == "openai-http"
        assert study.workload.model == "Qwen/Qwen3-8B"
        assert study.workload.slo is not None  # type: ignore[union-attr]
        assert {run.point.rate_per_s for run in study.point_runs()} == {2, 4, 8}
        assert {run.point.precision for run in study.runs()} == {"as-served"}
        decode = attach(server.url, "decode", ["sweep.rate_per_s=[3]"])
        assert [run.point.batch for run in decode.runs()] == [1, 1, 1]
        done = call("measure", server.url, "--out", tmp_path, "--at", "colour=1")
        assert done.exit_code == 2
        assert "unknown field 'point.colour'" in done.stderr
        done = call("measure", "pretrain", "--url", server.url, "--out", tmp_path)
        assert "is a spec of training" in done.stderr
        assert done.exit_code == 2
    assert not list(tmp_path.iterdir())


def test_the_duration_is_one_in_which_the_fastest_rate_has_a_p99() -> None:
    with plain(Plain()) as server:
        for rate, duration_s in ((1, 120), (4, 120), (6, 80), (100, 60)):
            assert attach(server.url, None, [f"sweep.rate_per_s=[{rate}]"]).protocol.duration_s == duration_s
        assert attach(server.url).protocol.duration_s == 60
        assert attach(server.url, None, ["protocol.duration_s=7", "protocol.steady_s=1"]).protocol.duration_s == 7
        assert attach(server.url).protocol.retakes == 1, "a run that others disturb is taken again"


REFUSED = {
    "several models": (Plain(models=["a", "b"]), [], "serves 2 models: a, b; choose one with --model NAME"),
    "a web page": (Plain(models=(200, b"<html>")), [], "a web page"),
    "a key": (Plain(key="x"), [], "wants a key (HTTP 401)"),
    "a key that is not there": (Plain(), ["--key-env", "NO_SUCH_KEY"], "'NO_SUCH_KEY'"),
    "no arrival of its own": (Plain(), ["--at", "batch=1,4", "--at", "rate_per_s=2"], "point.batch means nothing"),
    "another lens's field": (Plain(), ["--at", "microbatch=1,4"], "point.microbatch is for training"),
    "a rate and a concurrency": (
        Plain(),
        ["--at", "concurrency=4", "--at", "rate_per_s=2"],
        "exclude each other; leave out one of the two",
    ),
    "a word for a rate": (Plain(), ["--at", "rate_per_s=fast"], "point.rate_per_s"),
    "other tools' word": (Plain(), ["--at", "rate=1,2"], "did you mean 'rate_per_s'?"),
    "a search for nothing": (Plain(), ["--at", "rate_per_s=search"], "a search needs an SLO"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_asked_is_one_sentence_and_nothing_is_made(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    server, words, says = REFUSED[what]
    with plain(server) as up:
        done = call("measure", "--url", up.url, "--out", tmp_path / "out", *words)
    assert done.exit_code == 2, done.output
    assert says in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert not (tmp_path / "out").exists()


def test_neither_a_spec_nor_a_server() -> None:
    assert "what is to be measured?" in call("measure").stderr
    assert call("measure").exit_code == 2
    assert "--key-env goes with --url" in call("measure", "laws", "--key-env", "X").stderr


def test_quick_is_a_minute_and_says_what_it_costs(tmp_path: Path) -> None:
    virtual = ["protocol.isolate=false", "protocol.repeats=1"]
    done = call("measure", "laws", "--quick", "--out", tmp_path, *with_settings(virtual))
    assert done.exit_code == 0, done.stderr
    assert "quick: 1 run of 60 s at each point instead of 1 run of 120 s" in done.stderr
    (run,) = find_runs(tmp_path)
    assert (run.spec.protocol.duration_s, run.spec.protocol.retakes) == (60, 0)
    with plain(Plain()) as server:
        settings = json.dumps([1, 2, 4])
        whole = attach(server.url, None, [f"sweep.rate_per_s={settings}"])
        assert len(whole.runs()) == 3


def _scheduled(study: Study) -> dict[float, int]:
    """How many requests of each rate are due once the server has filled up."""
    loads = {run.point.rate_per_s: planned_load(run).plan for run in study.runs()}
    return {rate: int((plan.intended_ns >= 3e9).sum()) for rate, plan in loads.items() if rate and plan is not None}


def test_quick_shares_its_minute_so_that_each_rate_has_what_it_needs() -> None:
    with plain(Plain()) as server:
        cut, said = study_of(None, Measure(url=server.url, at=("rate_per_s=1,2,4",), quick=True))
    lasts = {run.point.rate_per_s: run.protocol.duration_s for run in cut.runs()}
    assert lasts[1.0] > lasts[2.0] > lasts[4.0]
    assert sum(lasts.values()) <= 60.2
    assert min(_scheduled(cut).values()) >= 20
    assert f"1 run of {lasts[1.0]:g} s at 1/s, {lasts[2.0]:g} s at 2/s, {lasts[4.0]:g} s at 4/s" in said
    assert expected_s(cut) == pytest.approx(sum(lasts.values()) + 3 * 9)


def test_a_minute_that_does_not_do_for_all_rates_does_for_the_fast_ones() -> None:
    with plain(Plain()) as server:
        cut, _ = study_of(None, Measure(url=server.url, at=("rate_per_s=0.1,1,10",), quick=True))
        own, _ = study_of(None, Measure(url=server.url, at=("rate_per_s=1,2",), set_=(DURATION,), quick=True))
        loops, _ = study_of(None, Measure(url=server.url, at=("concurrency=1,4",), quick=True))
    counts = _scheduled(cut)
    assert min(counts[1.0], counts[10.0]) >= 20 > counts[0.1]
    assert {run.protocol.duration_s for run in own.runs()} == {33}
    assert {run.protocol.duration_s for run in loops.runs()} == {30}


def test_quick_waits_a_minute_for_a_server_that_hangs_and_says_so() -> None:
    with plain(Plain()) as server:
        cut, said = study_of(None, Measure(url=server.url, at=("rate_per_s=1,2",), quick=True))
        assert cut.executor.options["timeout_s"] == 60
        assert said.endswith("a request that takes 60 s has failed")
        own = ("executor.options.timeout_s=7",)
        assert study_of(None, Measure(url=server.url, set_=own, quick=True))[0].executor.options["timeout_s"] == 7
        assert "timeout_s" not in study_of(None, Measure(url=server.url))[0].executor.options
    assert "has failed" not in study_of("laws", Measure(quick=True))[1]


def test_a_shorter_run_is_asked_for_less_steady_time() -> None:
    with plain(Plain()) as server:
        assert attach(server.url, None, ["protocol.duration_s=9"]).protocol.steady_s == 3
        assert attach(server.url, None, ["protocol.duration_s=90"]).protocol.steady_s == 20
        assert attach(server.url, None, ["protocol.duration_s=9", "protocol.steady_s=5"]).protocol.steady_s == 5


@pytest.mark.parametrize("name", ["chat", "search", "decode", "gpu-inference", "demo-training"])
def test_quick_cuts_any_example_to_about_a_minute(name: str) -> None:
    whole = load(name)
    cut = load(name, quick(whole))
    runs = 4 if cut.search else len(cut.runs())
    assert runs * cut.protocol.duration_s <= max(60, 5 * runs)
    assert load(name, [*quick(whole), "protocol.duration_s=33"]).protocol.duration_s == 33


def test_a_server_that_only_completes_is_measured_so_and_the_screen_and_the_record_say_it(tmp_path: Path) -> None:
    def spoken(body: dict[str, Any]) -> Any:
        count = body["max_tokens"]
        end = {"choices": [{"text": "", "finish_reason": "length"}], "usage": {"completion_tokens": count}}
        return stream(*[{"choices": [{"text": "x "}]}] * count, end)

    empty = stream({"choices": [{"delta": {}, "finish_reason": "stop"}]})
    with plain(Plain(answers={"/v1/chat/completions": empty, "/v1/completions": spoken})) as server:
        done = call("measure", "--url", server.url, "--at", "rate_per_s=20", "--out", tmp_path, *with_settings(SMALL))
    assert done.exit_code == 0, done.stderr
    assert done.stderr.splitlines()[0] == f"Qwen/Qwen3-8B at {server.url}/v1, by its completions API"
    (run,) = find_runs(tmp_path)
    assert run.spec.executor.options["endpoint"] == "completions"
    assert {body["max_tokens"] for _, path, _, body in server.asked if path == "/v1/completions"} == {4}
    assert set(run.requests.outcome) == {"ok"}


def test_a_server_whose_stream_holds_no_token_is_refused_before_the_first_load(tmp_path: Path) -> None:
    empty = stream({"choices": []})
    with plain(Plain(answers={"/v1/chat/completions": empty, "/v1/completions": empty})) as server:
        done = call("measure", "--url", server.url, "--out", tmp_path / "out")
    assert done.exit_code == 2
    assert "the answer holds no token" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert not (tmp_path / "out").exists()
