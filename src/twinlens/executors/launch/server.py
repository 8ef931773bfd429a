"""A server that Twinlens starts, then asks like any other: launch, join, play, and an end whatever happens."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shutil
import sys
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import psutil

from twinlens.errors import BadInput, ExecutorFailed
from twinlens.executors.launch.interpreter import interpreter_for, refuse_missing
from twinlens.executors.launch.model_folder import folder_of, gguf_file, model_folder, servable, stored_in
from twinlens.executors.launch.observe import described
from twinlens.executors.launch.options import CHOSEN, Settings, settings_of, with_endpoint
from twinlens.executors.launch.process import Process, environment_of
from twinlens.executors.launch.quantiser import Given, decided_by, quantised_by, versions_in
from twinlens.executors.launch.ready import free_port, is_taken, page, refuse_gone, wait_until_ready
from twinlens.executors.launch.recipe import LOOPBACK, Command, LaunchConfig, Recipe
from twinlens.executors.launch.replicas import Boards, behind_balancer, gpus_of_each, gpus_taken, masked
from twinlens.executors.launch.startup import after_start, before_start
from twinlens.executors.launch.switches import words_of
from twinlens.executors.openai.compared import Weights
from twinlens.executors.openai.entry import target_of
from twinlens.executors.openai.executor import OpenAIServer
from twinlens.executors.protocol import Say, TakesRow
from twinlens.executors.quantise.plan import PLANS
from twinlens.network.client import Client
from twinlens.record.executor.facts import Facts
from twinlens.record.sections import Running
from twinlens.schedule.request import Schedule
from twinlens.spec.model.any_model import AnyModel
from twinlens.spec.study import RunSpec
from twinlens.spec.workload.workload import Images, InferenceWorkload
from twinlens.system.log import owned_folder
from twinlens.system.processes import usable_cores

_TRIES = 3
_OF_GGUF = (
    "the weights of a GGUF file are not computed here in fp32; name the folder that it was made from in "
    "executor.options.reference"
)


class LaunchedProcess:
    """A started server, held by whoever started it. `running` can be handed to others, in other processes too."""

    def __init__(self, process: Process, running: Running, ready: str) -> None:
        self._process, self.running, self._ready = process, running, ready

    def is_well(self) -> bool:
        """Whether it lives and answers."""
        port = int(self.running.url.rpartition(":")[2].partition("/")[0])
        return self._process.exit_code() is None and page(port, self._ready)[0] == 200

    def stop(self) -> None:
        """End it and all it started; may be called again."""
        self._process.stop()


class LaunchedServer:
    """One recipe as a Server; Without `join`, `open` launches one that `close` ends."""

    def __init__(self, recipe: Recipe) -> None:
        self._recipe = recipe
        self._server = OpenAIServer()
        self._joined: Running | None = None
        self._own: LaunchedProcess | None = None
        self._own_logs: Path | None = None
        self._usable: set[int] = set()

    def key(self, spec: RunSpec) -> str:
        """Two specs with equal keys are served by the same server: command line, environment and weights are equal.

        Raises BadInput for what cannot be served, and (TL208) for more GPUs than there are.
        """
        settings = self._settings(spec)
        command = self._recipe.command(order_of(self._recipe, spec, settings, folder=spec.workload.model, port=0))
        argv, chosen = command.argv, {**command.environment, **settings.environment}
        weights = decided_by(spec) if is_quantised_here(spec, settings) else []
        dealt = (settings.cpus, settings.replicas, self.boards(spec))
        asked = (self._recipe.kind, argv, chosen, dealt, dict(settings.switches), weights)
        return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()[:16]

    def refuse_not_installed(self, spec: RunSpec) -> None:
        """Raises BadInput (TL207, TL217) where the Python that would start it lacks the runtime, or that which would
        quantise its model lacks the compressor, and where the build that is there is for another device; TL203 where it
        has no kernels for this processor."""
        settings = self._settings(spec)
        refuse_missing(self._recipe, interpreter_for(self._recipe, settings.python), spec.device)
        if is_quantised_here(spec, settings):
            versions_in(settings.quantiser)
        asked = spec.point.precision, str(settings.switches.get("kv_format", ""))
        if not spec.device.names_gpu and (why := self._recipe.unable(*asked)):
            raise BadInput(why, code="TL203")

    def boards(self, spec: RunSpec) -> tuple[Boards, ...]:
        """The GPUs of each server, as entries of CUDA's mask. Raises BadInput (TL208) where there are too few."""
        settings = self._settings(spec)
        words = (*words_of(self._recipe.switches, settings.switches), *settings.args)
        each = settings.gpus_each or gpus_taken(words, self._recipe.gpu_flags)
        return gpus_of_each(spec.device, settings.replicas, each, {**os.environ, **settings.environment})

    def launch(self, spec: RunSpec, log: Path, say: Say) -> LaunchedProcess:
        """Start one and wait until it is ready; its output goes to `log`.

        Raises BadInput for what cannot be served or is not installed, ExecutorFailed (TL303, TL304) where it does not
        come up; nothing is left running then.
        """
        self.refuse_not_installed(spec)
        recipe, settings = self._recipe, self._settings(spec)
        if recipe.needs_gguf:
            order_of(recipe, spec, settings, folder="", port=0)  # says what is missing
            folder = gguf_file(settings.gguf)
        else:
            folder = model_folder(spec.model, say)
        given = Given(folder)
        if is_quantised_here(spec, settings):
            given = quantised_by(settings.quantiser, folder, spec, say)
        for attempt in range(1, _TRIES + 1):
            order = order_of(recipe, spec, settings, folder=str(given.folder.path), port=free_port())
            command = recipe.command(order)
            boards = self.boards(spec)
            command = replace(command, environment={**command.environment, **settings.environment, **masked(*boards)})
            try:
                return self._started(spec, settings, order, command, boards, log, given, say)
            except ExecutorFailed:
                if attempt == _TRIES or not is_taken(order.port):  # else somebody took the port meanwhile
                    raise
        raise AssertionError("unreachable")

    def join(self, server: Running) -> None:
        """Ask this one, which is up already and ends when its owner says. Before `open`."""
        self._joined = server

    def open(self, spec: RunSpec, say: Say) -> Facts:
        """Raises what `launch` raises, and ExecutorFailed (TL302) where the server does not answer a request."""
        if self._joined is None:
            self._own_logs = owned_folder("server")
            self._own = self.launch(spec, self._own_logs / "server.log", say)
            self._joined = self._own.running
        self._keep_off(self._settings(spec).cpus)
        server = self._joined
        if self._settings(spec).client.get("endpoint") != spec.executor.options.get("endpoint"):
            say(CHOSEN)
        own_page = server.url.removesuffix("/v1") + self._recipe.metrics
        metrics = {"metrics_url": own_page if server.replicas == 1 else "off"}  # each replica has a page of its own
        asked = {**metrics, **self._settings(spec).client, "url": server.url, "model": server.model}
        target = target_of(self._recipe.kind, asked)
        facts = self._server.attach(target, spec, say, self._weights(spec))
        if server.facts is None:
            return facts
        record = facts.executor.merged(server.facts.executor)
        findings = (*server.facts.findings, *facts.findings)
        return replace(
            server.facts, executor=record, findings=findings, fidelity=facts.fidelity, compared=facts.compared
        )

    def play(self, schedule: Schedule, rows: TakesRow) -> None:
        self._server.play(schedule, rows)

    @property
    def network_client(self) -> Client:
        """The client that asks it."""
        return self._server.network_client

    def close(self) -> None:
        try:
            self._server.close()
        finally:
            if self._usable:
                os.sched_setaffinity(0, self._usable)
            if self._own is not None:
                self._own.stop()
                self._own = None
            if self._own_logs is not None:
                shutil.rmtree(self._own_logs, ignore_errors=True)
                self._own_logs = None

    def _keep_off(self, cpus: Sequence[int]) -> None:
        """Leave the server's processors to it, where there are others; clients that are started later inherit this."""
        usable = os.sched_getaffinity(0) if cpus else set()
        if others := usable - set(cpus):
            self._usable = usable
            os.sched_setaffinity(0, others)

    def _weights(self, spec: RunSpec) -> Weights:
        """The folder that the server was given: what it computes is compared with the same weights in fp32."""
        if self._recipe.needs_gguf:
            return Weights(why_none=_OF_GGUF)
        return Weights(folder_of(spec.model))

    def _settings(self, spec: RunSpec) -> Settings:
        recipe = self._recipe
        settings = settings_of(recipe.kind, spec.executor.options, sys.executable, recipe.graphs, recipe.switches)
        return with_endpoint(settings, recipe, spec)

    def _started(
        self, spec: RunSpec, settings: Settings, order: LaunchConfig, command: Command, boards: Sequence[Boards],
        log: Path, given: Given, say: Say,
    ) -> LaunchedProcess:  # fmt: skip
        recipe, port, name, count = self._recipe, order.port, order.name, settings.replicas
        say(f"starting {recipe.name}" if count == 1 else f"starting {count} of {recipe.name}")
        run = command if count == 1 else behind_balancer(recipe, order, settings.environment, boards)
        startup = before_start(settings, given.folder.path)
        process = Process(run.argv, environment_of(settings, run.environment), log, cpus=settings.cpus)
        try:
            limit_s = settings.start_timeout_s or recipe.start_timeout_s
            ready_s = wait_until_ready(process, recipe.name, port, recipe.ready, log, limit_s, say)
            born_s = psutil.Process(process.pid).create_time()
            startup |= after_start(recipe, settings, port, name, log)
            refuse_gone(process, recipe.name, port, recipe.ready, log)
            running = Running(
                id=secrets.token_hex(4),
                kind=recipe.kind,
                url=f"http://{settings.host}:{port}/v1",
                model=name,
                pid=process.pid,
                born_s=born_s,
                log=str(log),
                started_utc=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
                ready_s=ready_s,
                command=command.argv,
                environment=command.environment,
                cpus=settings.cpus,
                startup=startup,
                replicas=count,
            )
            return LaunchedProcess(process, described(running, recipe, spec, settings, given), recipe.ready)
        except BaseException:
            process.stop()
            raise


_LEAST_CONTEXT, _USUAL_CONTEXT = 2048, 8192


def order_of(recipe: Recipe, spec: RunSpec, settings: Settings, *, folder: str, port: int) -> LaunchConfig:
    """Raises BadInput for a workload that no server can take, and for a missing GGUF file."""
    workload = spec.workload
    if not isinstance(workload, InferenceWorkload) or isinstance(workload.data, Images):
        raise BadInput(f"{recipe.kind} serves language models; take an inference workload of text", code="TL202")
    ref = servable(spec.model)
    if recipe.needs_gguf and not Path(settings.gguf).is_file():
        raise BadInput(
            f"{recipe.kind} reads GGUF files and Twinlens does not convert to them; name one in executor.options.gguf"
            + (f" ({settings.gguf!r} is no file)" if settings.gguf else ""),
            code="TL207",
        )
    if settings.quantiser and not recipe.quantised_here:
        raise BadInput(
            f"{recipe.kind} is given no folder that is quantised here; leave executor.options.quantiser out",
            code="TL207",
        )
    return LaunchConfig(
        spec=spec,
        python=settings.python,
        folder=folder,
        name={"alias": Path(ref.name).name, "folder": folder, "its own": ""}[recipe.called],
        port=port,
        threads=threads_of(spec.executor.threads, settings.cpus),
        context_tokens=context_of(ref, workload),
        args=(*words_of(recipe.switches, settings.switches), *settings.args),
        gguf=settings.gguf,
        stored=spec.point.precision if is_quantised_here(spec, settings) else stored_in(ref.folder, ref.config),
        cpus=settings.cpus,
        graph=settings.graph,
        switches=settings.switches,
        listen=LOOPBACK if settings.host == LOOPBACK else "0.0.0.0",
    )


def is_quantised_here(spec: RunSpec, settings: Settings) -> bool:
    """Whether its folder is made before the start: a quantiser is named, and the weights are wide as yet."""
    ref = spec.model
    return bool(settings.quantiser) and spec.point.precision in PLANS and not stored_in(ref.folder, ref.config)


def threads_of(asked: int, cpus: Sequence[int] = ()) -> int:
    """One per physical core that the server may use, unless asked otherwise."""
    return asked or usable_cores(len(cpus))


def context_of(ref: AnyModel, workload: InferenceWorkload) -> int:
    """Tokens a sequence may hold: twice the longest prompt and answer (words are not exactly tokens, and templates add
    some), and never above what the model has positions for. Where lengths are not known beforehand, 8,192."""
    longest = ref.context_tokens or _USUAL_CONTEXT
    if workload.sessions is not None or workload.arrival.kind == "trace":
        return min(longest, _USUAL_CONTEXT)
    needed = 2 * (workload.input_tokens.max + workload.output_tokens.max + 64)
    if workload.prefix is not None:
        needed += 2 * workload.prefix.tokens
    return min(longest, max(_LEAST_CONTEXT, needed))
