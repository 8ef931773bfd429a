"""A server that speaks the OpenAI API, already up somewhere: `executor.options.url`.

network/client.py plays a schedule against it, network/dialect/openai.py decides what counts as an answer,
network/discovery.py asks the server about itself.
"""

from __future__ import annotations

from dataclasses import replace

from twinlens.errors import BadInput
from twinlens.executors.openai.compared import UNKNOWN, Weights, fidelity_of
from twinlens.executors.openai.entry import target_of
from twinlens.executors.openai.server_facts import facts_of
from twinlens.executors.protocol import Say, TakesRow
from twinlens.network.client import Client
from twinlens.network.dialect.endpoint import EndpointConfig
from twinlens.network.dialect.openai import RequestWriter
from twinlens.network.discovery import find_out, for_task
from twinlens.network.limits import refuse_too_many
from twinlens.network.target import Target, client_pool_of
from twinlens.record.executor.facts import Facts
from twinlens.schedule.prompt import words_of
from twinlens.schedule.request import Schedule
from twinlens.spec.study import RunSpec
from twinlens.spec.workload.length import Free
from twinlens.spec.workload.workload import Images, InferenceWorkload


class OpenAIServer:
    """`open` for a spec with the url in its options; a launcher that knows its server uses `attach`."""

    def __init__(self) -> None:
        self._client = Client()

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
