"""A server of the KServe v2 protocol, already up somewhere: `executor.options.url`."""

from __future__ import annotations

from twinlens.errors import BadInput, ExecutorFailed
from twinlens.executors.kserve.entry import kserve_target
from twinlens.executors.openai.compared import uncompared
from twinlens.executors.openai.executor import http_facts
from twinlens.executors.protocol import Say, TakesRow
from twinlens.network.client import Client
from twinlens.network.dialect.endpoint import EndpointConfig, head_lines
from twinlens.network.dialect.kserve import ImageRequests, Tensors, tensors_of
from twinlens.network.dialect.one_answer import one_answer_findings
from twinlens.network.discovery import asked_until_taken, get, reachable
from twinlens.network.limits import refuse_too_many
from twinlens.network.target import Address, KServeTarget, client_pool_of
from twinlens.record.executor.facts import Facts
from twinlens.record.executor.record import ExecutorRecord, Fact, declared, unknown
from twinlens.schedule.request import Schedule, ScheduledRequest
from twinlens.spec.study import RunSpec
from twinlens.spec.workload.prompt import Classify
from twinlens.spec.workload.workload import InferenceWorkload

_FIRST_ANSWER_S = 60.0
_SHORT = ScheduledRequest(0, 0, 0, input_tokens=0, output_tokens=0, seed=(0x7717, 0))


class KServeServer:
    """Asks for the model's metadata and one answer, then plays as any client over HTTP."""

    def __init__(self) -> None:
        self._client = Client()

    def open(self, spec: RunSpec, say: Say) -> Facts:
        workload = spec.workload
        assert isinstance(workload, InferenceWorkload)
        if not isinstance(workload.task, Classify):
            raise BadInput('kserve-http classifies images: workload.task.kind = "classify"', code="TL202")
        if client_pool_of(spec.executor.options).is_one:
            refuse_too_many(max(spec.point.concurrency or 1, spec.point.in_flight or 1))
        say("reading the model's metadata")
        server = kserve_target(spec.executor.options, workload.model)
        address = reachable(server.target)
        tensors = read_metadata(server, address)
        headers = {name: value for name, value in server.target.headers().items() if name != "Content-Type"}
        head = head_lines(headers | {"Accept": "application/json"})
        requests = ImageRequests(tensors, workload.task.images, server.path, head, spec.protocol.seed)
        ended, has_stamps = asked_until_taken(server.target, address, requests.of(_SHORT), _FIRST_ANSWER_S)
        row = requests.row(_SHORT, ended, ended.sent_ns)
        if row.outcome != "ok":
            raise ExecutorFailed(f"{server.target.url} does not classify an image: {row.error}", code="TL302")
        self._client.equip(EndpointConfig(server.target, requests), address)
        findings = one_answer_findings(workload.task, tensors.width, has_stamps=has_stamps, sent=tensors.sent)
        record = ExecutorRecord(_facts(server, tensors, has_stamps))
        return Facts(record, findings=findings, compared=uncompared(workload.task))

    def play(self, schedule: Schedule, rows: TakesRow) -> None:
        self._client.play(schedule, rows)

    @property
    def network_client(self) -> Client:
        """The client that asks it."""
        return self._client

    def close(self) -> None:
        self._client.close()


def read_metadata(asked: KServeTarget, address: Address) -> Tensors:
    """Ask the server about itself and the model. Raises ExecutorFailed (TL302) where it or the model is not ready, and
    BadInput (TL207) where its input is none that images can be sent to."""
    target = asked.target
    status, _, _ = get(target, address, f"{target.path}/v2/health/ready")
    if status != 200:
        said = f"HTTP {status}" if status else "no answer"
        raise ExecutorFailed(
            f"{target.url} is not ready by the KServe v2 protocol (GET /v2/health/ready: {said}); start it, or correct "
            "the url",
            code="TL302",
        )
    _, _, about = get(target, address, f"{target.path}/v2")
    about = about if isinstance(about, dict) else {}
    status, _, model = get(target, address, asked.path)
    if status != 200 or not isinstance(model, dict):
        raise ExecutorFailed(
            f"{target.url} says nothing of a model {asked.model!r} (HTTP {status}); name it in executor.options.model",
            code="TL302",
        )
    return tensors_of(asked, about, model)


def _facts(server: KServeTarget, tensors: Tensors, has_stamps: bool) -> dict[str, Fact]:
    nobody = unknown("the server does not say who it is")
    return http_facts(has_stamps) | {
        "software.runtime.name": declared(tensors.server, "/v2") if tensors.server else nobody,
        "software.runtime.version": declared(tensors.version, "/v2") if tensors.version else nobody,
        "model.id": declared(server.model, server.path),
    }
