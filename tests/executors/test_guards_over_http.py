"""The guards against servers that cheat in one way each, and against an honest one, over real sockets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from cheat_server import Server
from hostile_server import hostile

from material import fixed, inference, measured, quiet, spec_of
from twinlens.executors.openai.executor import OpenAIServer
from twinlens.measurement.compliance.run import ResponseSampler, run_compliance_tests
from twinlens.record.sections import ComplianceTest
from twinlens.reporting.wording.finding import clause_of
from twinlens.schedule.build import planned_load
from twinlens.spec.study import RunSpec

TOKENS = 12
STEADY = ("pass", "not enough")  # beside a busy neighbour times may scatter too much to say; the law is in tests/stats


def spec_for(url: str, concurrency: int, requests: int, **options: Any) -> RunSpec:
    data = inference(
        "openai-http",
        options={"url": url, "probe": False, "force_length": True, "timeout_s": 10.0} | options,
        output_tokens=fixed(TOKENS),
        arrival={"kind": "closed"},
        point={"concurrency": concurrency},
        protocol={"duration_s": 0.001, "min_rows": requests},
    )
    return spec_of(data)


def guards(server: Server, *, concurrency: int = 6, requests: int = 40, **options: Any) -> dict[str, ComplianceTest]:
    with hostile(server) as running:
        spec = spec_for(running.url, concurrency, requests, **options)
        server, sampler = OpenAIServer(), ResponseSampler(1)
        client = server.network_client
        try:
            server.open(spec, quiet)
            client.on_response(sampler)
            client.play(planned_load(spec).schedule, lambda row: None)
            client.on_response(None)
            return {guard.id: guard for guard in run_compliance_tests(client, spec, sampler)}
        finally:
            server.close()


def rulings(found: dict[str, ComplianceTest]) -> dict[str, str]:
    return {id: guard.ruling for id, guard in found.items()}


def test_an_honest_server_passes_every_guard() -> None:
    found = guards(Server())
    assert found["caching"].ruling in STEADY
    assert rulings(found) | {"caching": "pass"} == dict.fromkeys(("caching", "tokens", "answers", "length"), "pass")
    assert found["tokens"].evidence["claimed_per_recounted"].value == pytest.approx(1.0)
    assert found["answers"].evidence["wholly_alike_under_load"].value == 1.0


def test_a_server_that_remembers_whole_answers_fails_for_caching_alone() -> None:
    found = guards(Server(remembers=True, pause_s=0.02))  # a busy machine adds milliseconds to both kinds
    assert found["caching"].ruling in ("fail", "not enough")  # times that depend on each other leave no interval
    assert found["caching"].evidence["decode_time_ratio"].value < 0.5
    assert rulings(found) | {"caching": "fail"} == {"caching": "fail"} | dict.fromkeys(
        ("tokens", "answers", "length"), "pass"
    )


def test_a_server_that_remembers_prefixes_is_faster_and_passes() -> None:
    found = guards(Server(knows_prefixes=True, prefill_s=0.04))["caching"]
    assert found.ruling in STEADY
    assert found.evidence["whole_time_ratio"].value < 0.8


def test_a_server_that_claims_twice_its_tokens_fails_for_tokens() -> None:
    half = Server(words=lambda words, under_way: words[: len(words) // 2], claims=lambda count: 2 * count)
    found = guards(half)
    assert found["tokens"].ruling == "fail"
    assert found["tokens"].evidence["claimed_per_recounted"].value == pytest.approx(2.0)
    assert found["length"].ruling == "pass"  # by its own count: which is why tokens are guarded too


@pytest.mark.parametrize(
    ("server", "why"),
    [
        (Server(claims=lambda count: count - 2), "fewer tokens than they have chunks"),
        (Server(claims=lambda count: count + 1), "more tokens than were asked for"),
        (Server(tail=" and more"), "go on after the reason to end"),
        (Server(words=lambda words, under_way: words[:-4]), "ended for length before it was reached"),
        (Server(first=" "), "begin differently from the same answers in one piece"),
    ],
    ids=["undercount", "over the limit", "goes on", "short", "filler first"],
)
def test_a_server_whose_tokens_contradict_themselves_fails(server: Server, why: str) -> None:
    found = guards(server)["tokens"]
    assert found.ruling == "fail"
    assert why in clause_of(found.reason) or server.first  # a filler is also a chunk too many


def test_a_server_that_answers_otherwise_under_load_fails_for_answers_alone() -> None:
    hurried = Server(pause_s=0.005, words=lambda words, under_way: words if under_way < 3 else words[::-1])
    found = guards(hurried)
    assert [id for id, guard in found.items() if guard.ruling == "fail"] == ["answers"]


def test_a_server_that_flips_a_near_tie_now_and_then_under_load_passes() -> None:
    def flipped(words: list[str], under_way: int) -> list[str]:
        is_tie = under_way >= 3 and words[0] == " sun"  # one prompt in twelve, in its second half
        return [*words[: TOKENS // 2], *words[TOKENS // 2 :][::-1]] if is_tie else words

    assert guards(Server(words=flipped))["answers"].ruling in ("pass", "not enough")


def test_a_server_that_shortens_answers_under_load_fails_for_length() -> None:
    hurried = Server(
        pause_s=0.005, words=lambda words, under_way: words if under_way < 3 else words[:-4], finish="stop"
    )
    for options in ({}, {"force_length": False}):
        found = guards(hurried, **options)["length"]
        assert found.ruling == "fail", found
        assert found.evidence["length_ratio"].value == pytest.approx(8 / 12, abs=0.1)


def test_too_few_requests_get_no_ruling() -> None:
    by_id = rulings(guards(Server(), requests=1, concurrency=3))
    assert {id: by_id[id] for id in ("tokens", "answers", "length")} == dict.fromkeys(
        ("tokens", "answers", "length"), "not enough"
    )


def test_one_request_at_a_time_is_no_load_to_answer_otherwise_under() -> None:
    found = guards(Server(), concurrency=1)["answers"]
    assert (found.ruling, found.id) == ("not applicable", "answers")
    assert "the load is one request at a time" in clause_of(found.reason)


def test_a_server_without_usage_is_not_ruled_on_for_tokens() -> None:
    silent = Server(claims=lambda count: None)  # type: ignore[arg-type, return-value]
    assert guards(silent)["tokens"].ruling == "not applicable"


def test_a_run_keeps_its_guards_and_its_rows_are_those_of_the_load(tmp_path: Path) -> None:
    with hostile(Server()) as running:
        data = inference(
            "openai-http",
            options={"url": running.url, "probe": False, "force_length": True},
            output_tokens=fixed(TOKENS),
            arrival={"kind": "poisson"},
            point={"rate_per_s": 60},
            protocol={"duration_s": 0.5, "guards": True},
        )
        run = measured(tmp_path, data)
        asked = len(running.asked)
    found = run.sections.guards
    assert [guard.id for guard in found] == ["caching", "tokens", "answers", "length"]
    assert len(run.requests) < asked
    assert run.requests.asked_tokens.tolist() == [TOKENS] * len(run.requests)


def test_guards_of_an_executor_that_is_not_asked_over_http_do_not_apply(tmp_path: Path) -> None:
    data = inference("fake", arrival={"kind": "poisson"}, point={"rate_per_s": 5}, protocol={"guards": True})
    found = measured(tmp_path, data).sections.guards
    assert {guard.ruling for guard in found} == {"not applicable"}
    assert all("over HTTP" in clause_of(guard.reason) for guard in found)


def test_every_point_of_a_study_answers_the_same_prompts_greedily(tmp_path: Path) -> None:
    """Eight prompts that depend neither on the point nor on the repeat, so that answers can be compared."""
    with hostile(Server()) as server:
        parts = {
            "options": {"url": server.url, "probe": False, "force_length": True},
            "output_tokens": fixed(TOKENS),
            "arrival": {"kind": "closed"},
            "protocol": {"duration_s": 0.001, "min_rows": 10, "guards": True},
        }
        runs = [measured(tmp_path, inference("openai-http", point={"concurrency": many}, **parts)) for many in (1, 3)]
    first, second = (run.sections.greedy for run in runs)
    assert first is not None
    assert first == second
    assert [answer.tokens for answer in first.answers if answer] == [TOKENS] * 8
    assert len({answer.text for answer in first.answers if answer}) == 8
