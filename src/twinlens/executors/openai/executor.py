"""A server that speaks the OpenAI API, already up somewhere: `executor.options.url`.

network/client.py plays a schedule against it, network/dialect/openai.py decides what counts as an answer,
network/discovery.py asks the server about itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from twinlens.errors import BadInput
from twinlens.executors.openai.compared import UNKNOWN, Weights, fidelity_of
from twinlens.executors.openai.entry import target_of
from twinlens.executors.openai.simulated import simulation_behind
from twinlens.executors.protocol import Say, TakesRow
from twinlens.executors.registry import server_words
from twinlens.executors.settings_text import flat, formats, plain_setting
from twinlens.network.client import Client
from twinlens.network.dialect.endpoint import EndpointConfig
from twinlens.network.dialect.one_answer import one_answer_findings
from twinlens.network.dialect.openai import RequestWriter
from twinlens.network.discovery import Discovery, find_out, for_task
from twinlens.network.limits import refuse_too_many
from twinlens.network.target import Target, client_pool_of
from twinlens.record.executor.facts import Facts
from twinlens.record.executor.record import ExecutorRecord, Fact, declared, observed, unknown
from twinlens.record.finding import Finding
from twinlens.record.sections import Simulated
from twinlens.schedule.prompt import words_of
from twinlens.schedule.request import Schedule
from twinlens.spec.study import RunSpec
from twinlens.spec.workload.length import Free
from twinlens.spec.workload.prompt import Embed, Generate
from twinlens.spec.workload.workload import Images, InferenceWorkload


class OpenAIServer:
    """`open` for a spec with the url in its options; a launcher that knows its server uses `attach`."""

    def __init__(self) -> None:
        self._client = Client()
        self.simulated: Simulated | None = None

    def open(self, spec: RunSpec, say: Say) -> Facts:
        return self.attach(target_of("openai-http", spec.executor.options), spec, say)

    def attach(self, target: Target, spec: RunSpec, say: Say, weights: Weights = UNKNOWN) -> Facts:
        """Ask the server who it is and what it accepts, compare it with its reference, and get ready to play.

        `weights`: those that it was given, where they are known. Raises BadInput and ExecutorFailed.
        """
        workload = spec.workload
        assert isinstance(workload, InferenceWorkload)
        if isinstance(workload.data, Images):
            raise BadInput(
                "images cannot be sent to an OpenAI server; take a language model, or kserve-http", code="TL202"
            )
        if client_pool_of(spec.executor.options).is_one:  # else each client sees for itself
            refuse_too_many(max(spec.point.concurrency or 1, spec.point.in_flight or 1))
        say("reading the server's facts")
        words = words_of(workload.prompts)
        if isinstance(workload.output_tokens, Free):
            target = replace(target, force_length=False)
        discovery = find_out(for_task(target, workload.task), words, spec)
        requests = discovery.requests
        if isinstance(workload.output_tokens, Free) and isinstance(requests, RequestWriter):
            requests = requests.ending_freely()
        self._client.equip(EndpointConfig(target, requests), discovery.address)
        self.simulated = simulation_behind(discovery)
        facts = facts_of(target, discovery, spec)
        rows, compared = fidelity_of(target, discovery, weights, spec, say)
        return replace(facts, fidelity=rows, compared=compared)

    def play(self, schedule: Schedule, rows: TakesRow) -> None:
        self._client.play(schedule, rows)

    @property
    def network_client(self) -> Client:
        """The client that asks it."""
        return self._client

    def close(self) -> None:
        self._client.close()


# Facts of a server that is already up, from what its pages said. All are declared: it cannot be looked into.

_SETTINGS = ("/server_info", "/get_server_info")


def facts_of(target: Target, discovery: Discovery, spec: RunSpec) -> Facts:
    """Facts of the server, and findings that a reader must see."""
    name, version = _runtime(discovery)
    fields = http_facts(discovery.has_stamps) | {
        "model.id": declared(discovery.model, f"{target.path}/models"),
        "software.runtime.name": name or unknown("the server does not say who it is"),
        "software.runtime.version": version or unknown("the server does not say its version"),
    }
    assert isinstance(spec.workload, InferenceWorkload)
    if isinstance(spec.workload.task, Generate):
        fields |= _decoding(discovery)
    for key, value in _settings(discovery.about).items():
        fields[key] = declared(value, "/server_info")
    if not isinstance(task := spec.workload.task, Generate):
        width = task.dimension or discovery.dimension if isinstance(task, Embed) else None
        has_stamps = discovery.has_stamps or discovery.row is None
        return Facts(ExecutorRecord(fields), findings=one_answer_findings(task, width, has_stamps=has_stamps))
    free = isinstance(spec.workload.output_tokens, Free)
    return Facts(ExecutorRecord(fields), findings=_findings(discovery, free))


def http_facts(has_stamps: bool) -> dict[str, Fact]:
    """The facts of every server that is asked over HTTP."""
    clock = "monotonic clock; receive stamps of the kernel" if has_stamps else "monotonic clock"
    return {
        "software.framework.name": unknown("a server over HTTP does not say what it computes with"),
        "protocol.timer": observed(clock, "network/discovery.py"),
    }


def _decoding(discovery: Discovery) -> dict[str, Fact]:
    stop = "length forced (ignore_eos, min_tokens)" if discovery.forces_length else "the model's own, or the limit"
    return {
        "decoding.strategy": declared("greedy (temperature 0)", "request"),
        "decoding.stop": declared(stop, "request"),
    }


def _runtime(discovery: Discovery) -> tuple[Fact | None, Fact | None]:
    about, header = discovery.about, discovery.server_header
    entries = (about.get("/models") or {}).get("data") if isinstance(about.get("/models"), dict) else None
    owner = entries[0].get("owned_by") if isinstance(entries, list) and entries and isinstance(entries[0], dict) else ""
    for path, key, name in (
        ("/version", "version", str(owner or "")),
        ("/get_server_info", "version", "sglang"),
        ("/server_info", "version", str(owner or "")),
        ("/props", "build_info", "llama.cpp"),
        ("/info", "version", "text-generation-inference"),
    ):
        content = about.get(path)
        if isinstance(content, dict) and isinstance(content.get(key), str):
            known = declared(name, "/models" if name == owner else path) if name else None
            return known or _header(header), declared(content[key], path)
    return (declared(str(owner), "/models") if owner else _header(header)), None


def _header(header: str) -> Fact | None:
    return declared(header[:100], "Server header") if header else None


def _settings(about: Mapping[str, Any]) -> dict[str, Any]:
    """Limits and switches under the names that the runtimes known here have for them."""
    pages = [page for path in _SETTINGS if isinstance(page := about.get(path), dict)]
    values = {name: leaf for page in reversed(pages) for name, leaf in flat(page).items()}
    settings: dict[str, Any] = {}
    for words in server_words():
        for fact, names in words.settings.items():
            known = next((value for name in names if (value := plain_setting(values.get(name))) is not None), None)
            settings[fact] = known if settings.get(fact) is None else settings[fact]
        for page in pages:
            config = page.get(words.under, page)  # unasked for JSON, vLLM gives one long text
            if isinstance(config, dict) and (spoken := words.speculation(config)):
                settings["serving.speculative"] = spoken
    weights, cache = values.get("dtype"), values.get("kv_cache_dtype", values.get("cache_dtype"))
    settings |= {field: fact.value for field, fact in formats(weights, cache, "").items()}
    return {field: value for field, value in settings.items() if value is not None}


def _findings(discovery: Discovery, free: bool) -> tuple[Finding, ...]:
    """Findings on this server that a reader must see beside the numbers."""
    findings = (
        [] if discovery.row is None and not free else [Finding("length-free", "notes") if free else _length(discovery)]
    )
    if discovery.row is not None and not discovery.has_usage:
        findings.append(Finding("no-usage-streamed", "notes"))
    if discovery.row is not None and not discovery.has_stamps:
        findings.append(Finding("no-kernel-stamps", "notes"))
    return tuple(findings)


def _length(discovery: Discovery) -> Finding:
    if not discovery.forces_length:
        return Finding("length-forbidden", "notes")
    is_heeded = discovery.row is None or discovery.row.outcome != "cut_off"
    return Finding("length-forced", "notes", "", {"heeded": is_heeded})
