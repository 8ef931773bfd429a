"""Fidelity of an OpenAI server: its log probabilities or answers beside a folder's in fp32, or another server's."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from twinlens.errors import BadInput, ExecutorFailed
from twinlens.executors.fidelity.readings import Unusable
from twinlens.executors.fidelity.served import (
    GENERATE,
    TOP,
    Asked,
    Prompt,
    Reference,
    Rows,
    answers_of,
    scores_of,
    served_fidelity,
)
from twinlens.executors.in_process.inputs import Prompts
from twinlens.executors.protocol import Say
from twinlens.network.dialect.endpoint import head_lines
from twinlens.network.discovery import Discovery, asked, first_model, get, reachable
from twinlens.network.target import Address, Target
from twinlens.record.executor.facts import Compared
from twinlens.schedule.prompt import words_of
from twinlens.spec.model.any_model import AnyModel, any_model
from twinlens.spec.model.quantised import stored_precision
from twinlens.spec.study import RunSpec
from twinlens.spec.workload.prompt import Generate, Task
from twinlens.spec.workload.workload import InferenceWorkload
from twinlens.system.processes import usable_cores

_PROMPT_TOKENS, _ANSWER_TOKENS, _STREAM = 128, 64, 9
_NOTHING = (
    "there is nothing to compare with: name a folder of the same weights or a reference server in "
    "executor.options.reference"
)


@dataclass(frozen=True, slots=True)
class Weights:
    """The weights that a server was given. `why_none`: why they are no reference, where `folder` is None."""

    folder: Path | None = None
    why_none: str = _NOTHING


UNKNOWN = Weights()
"""Of a server that is up already, whose weights are not known."""


def fidelity_of(
    target: Target, discovery: Discovery, weights: Weights, spec: RunSpec, say: Say
) -> tuple[Rows, Compared | None]:
    """Rows of the prompts that were compared, and how; of a task that answers in one piece, why nothing was."""
    workload = spec.workload
    assert isinstance(workload, InferenceWorkload)
    if not isinstance(workload.task, Generate):
        return (), uncompared(workload.task)
    try:
        if not workload.fidelity_prompts:
            raise Unusable("workload.fidelity_prompts is 0")
        if workload.adapter is not None:
            raise Unusable("an adapter is served, and the reference would be the model without it")
        reference, prompts, texts = _reference(target, weights, spec)
        say(f"comparing with {reference.name}")
        server = _asked_of(target, discovery.address, discovery.model, "the server")
        most_tokens = min(_ANSWER_TOKENS, workload.output_tokens.max)
        return served_fidelity(server, reference, prompts, texts, most_tokens)
    except Unusable as wrong:
        return (), Compared("none", reason=str(wrong))


def uncompared(task: Task) -> Compared:
    """The reason why answers in one piece have no fidelity: nobody computes the same here."""
    what = {"embed": "embeddings", "rerank": "scores of documents", "classify": "classes of images"}[task.kind]
    return Compared("none", reason=f"{what} over HTTP are checked in form and compared with no reference")


def _reference(target: Target, weights: Weights, spec: RunSpec) -> tuple[Reference, list[Prompt], list[str]]:
    texts = _texts(spec)
    if "://" in target.reference:
        return _server(target), [*texts], texts
    folder = Path(target.reference).expanduser().resolve() if target.reference else weights.folder
    if folder is None:
        raise Unusable(weights.why_none)
    try:
        model = any_model(str(folder))
        if stored := stored_precision(model.config):
            raise Unusable(
                f"the folder is quantised by {stored}, so it does not hold the fp32 weights; name the folder that it "
                "was made from in executor.options.reference"
            )
        prompts = _ids(spec, model)
    except BadInput as wrong:
        raise Unusable(f"the reference {target.reference or 'folder'} cannot be read: {wrong}") from None
    threads = spec.executor.threads or usable_cores()
    computed = partial(scores_of, folder, top=TOP, threads=threads), partial(answers_of, folder, threads=threads)
    return Reference("the same weights in fp32", *computed), prompts, texts


def _server(target: Target) -> Reference:
    # No key of the server that is measured is sent to another one.
    other = replace(target, url=target.reference, api_key="", model="")
    try:
        address = reachable(other)
        _, _, models = get(other, address, other.path + "/models")
    except ExecutorFailed as wrong:
        raise Unusable(f"the reference does not answer: {wrong}") from None
    model = first_model({"/models": models})
    if not model:
        raise Unusable(f"the reference {target.reference} lists no model")
    server = _asked_of(other, address, model, "the reference")
    return Reference(f"{model} of {target.reference}", server.scores, server.answers)


def _asked_of(target: Target, address: Address, model: str, name: str) -> Asked:
    above = target.path.removesuffix("/v1")

    def post(page: str, body: bytes) -> tuple[int, bytes, str]:
        head = head_lines(target.headers() | {"Accept": "application/json"})
        path = f"{above if page == GENERATE else target.path}{page}"
        line = f"POST {path} HTTP/1.1\r\n{head}Content-Length: {len(body)}\r\n\r\n"
        ended, _ = asked(target, address, line.encode("latin-1") + body, target.timeout_s)
        return ended.status, ended.body, ended.fault or ""

    return Asked(name, model, post)


def _texts(spec: RunSpec) -> list[str]:
    workload = spec.workload
    assert isinstance(workload, InferenceWorkload)
    words, tokens = words_of(workload.prompts), min(_PROMPT_TOKENS, workload.input_tokens.max)
    return [words.cut((spec.protocol.seed, _STREAM, place), tokens) for place in range(workload.fidelity_prompts)]


def _ids(spec: RunSpec, model: AnyModel) -> list[Prompt]:
    """The prompts that engines in this process are compared on."""
    sample = Prompts(spec, model).sample()
    return [] if sample is None else [tuple(row.tolist()) for row in sample]
