"""Facts of a launched server, as an executor record: from its pages, log, processes and Python."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil

from twinlens.errors import BadInput
from twinlens.executors.in_process.weights import with_modelopt
from twinlens.executors.launch.interpreter import Interpreter, interpreter_for, refuse_missing
from twinlens.executors.launch.model_folder import ModelFolder, stored_in
from twinlens.executors.launch.options import Settings
from twinlens.executors.launch.quantiser import Given
from twinlens.executors.launch.ready import page, pages
from twinlens.executors.launch.recipe import TORCH_NAMES, Recipe, ServerOutput
from twinlens.executors.launch.switches import findings_of
from twinlens.record.executor.facts import Facts
from twinlens.record.executor.record import ExecutorRecord, Fact, PrecisionCheck, declared, observed, unknown
from twinlens.record.finding import Finding
from twinlens.record.sections import Running
from twinlens.spec.model.header import format_of_tensor
from twinlens.spec.model.quantised import QUANTISED_BY, UNQUANTISED, contradicts, narrows_activations
from twinlens.spec.precision import PRECISIONS, precision
from twinlens.spec.study import RunSpec
from twinlens.system.document import read_json
from twinlens.system.log import read_log

_QUANTISED, _HEAD = "precision.detail", "lm_head.weight"
_CLASSES = {"weights": "precision.weights", "activations": "precision.activations", "kv": "precision.kv"}


def described(running: Running, recipe: Recipe, spec: RunSpec, settings: Settings, given: Given) -> Running:
    """The same server with what it looks like now that it is ready, and what it says of itself."""
    port, folder = int(running.url.rpartition(":")[2].partition("/")[0]), given.folder
    interpreter = interpreter_for(recipe, settings.python)
    process = process_of(running.pid)
    status, metrics = page(port, recipe.metrics)
    said_by_page, silent = pages(port, recipe.pages)
    output = ServerOutput(
        pages=said_by_page,
        metrics=metrics if status == 200 else "",
        log=read_log(Path(running.log)),
        argv=(running.replicas == 1 and process.get("command")) or running.command,
        packages=interpreter.packages,
    )
    fields = recipe.facts(output)
    fields |= _stored(spec, folder) or _online(recipe, spec, fields)
    said = dict(fields)
    if _QUANTISED in fields and fields[_QUANTISED].value == UNQUANTISED:
        del fields[_QUANTISED]  # what the precision has said already
    behind = "one server, no balancer" if running.replicas == 1 else "servers that answered behind the balancer"
    fields["serving.replicas"] = observed(running.replicas, behind)
    record = ExecutorRecord(_software(recipe, interpreter, running)).merged(_model(spec, given)).merged(fields)
    asked = settings.switches
    found = (
        *_findings(recipe, folder),
        *given.findings,
        *map(_silence, silent),
        *findings_of(recipe.switches, asked, fields),
    )
    # A file of weights has no say on the cache, which the runtime makes as it is shipped.
    left = ("kv",) if recipe.needs_gguf and "kv_format" not in asked else ()
    checked = checks(spec, said, left)
    facts = Facts(record, precision=checked, findings=found)
    return replace(running, process=process, facts=facts)


def process_of(pid: int) -> dict[str, Any]:
    """The processes of a server: command line of the first, and for all together count, resident bytes and threads."""
    try:
        first = psutil.Process(pid)
        all_of_them = [first, *first.children(recursive=True)]
        return {
            "command": first.cmdline(),
            "processes": len(all_of_them),
            "resident_bytes": sum(process.memory_info().rss for process in all_of_them),
            "threads": sum(process.num_threads() for process in all_of_them),
        }
    except psutil.Error:
        return {}


def _software(recipe: Recipe, interpreter: Interpreter, running: Running) -> dict[str, Fact]:
    package, where = refuse_missing(recipe, interpreter), "importlib.metadata of the server's Python"
    framework = "torch" if "torch" in interpreter.packages else ""
    threads = running.environment.get("OMP_NUM_THREADS", "")
    fields = {
        "software.runtime.name": observed(package if package != "transformers" else recipe.name, where),
        "software.runtime.version": observed(interpreter.packages[package], where),
        "software.python.version": observed(interpreter.python, "platform of the server's Python"),
        "software.packages": observed(dict(interpreter.packages), where),
        "compiler.name": declared("torch.compile", "command line, --compile")
        if "--compile" in running.command
        else unknown("the server does not say what compiles its graphs"),
        "compiler.flags": declared(_flags(running.command), "command line, without addresses and paths"),
    }
    if framework:
        fields["software.framework.name"] = observed(framework, where)
        fields["software.framework.version"] = observed(interpreter.packages[framework], where)
    if running.cpus:
        fields |= _kept_to(running.pid)
    if threads.isdigit():
        fields["software.framework.threads"] = declared(int(threads), "OMP_NUM_THREADS set for it")
    return fields


def _kept_to(pid: int) -> dict[str, Fact]:
    """The processors that the server may use, where it was kept to some: its client may use others."""
    try:
        cpus, where = psutil.Process(pid).cpu_affinity(), "sched_getaffinity of the server's process"
    except psutil.Error:  # it has just ended, and the run will say so
        return {}
    return {"software.affinity": observed(cpus, where), "host.cpu.usable_threads": observed(len(cpus), where)}


def _flags(command: tuple[str, ...]) -> list[str]:
    """The command line as one list of settings, so that two servers at two ports or paths are the same stack."""
    hidden, kept, skip = {"--port", "--host", "--model", "--served-model-name", "--model-path"}, list[str](), False
    for word in command[1:]:
        if word in hidden:
            skip = True
        elif skip and not word.startswith("-"):
            skip = False
        elif not Path(word).is_absolute():
            kept.append(word)
            skip = False
    return kept


def _stored(spec: RunSpec, folder: ModelFolder) -> dict[str, Fact]:
    """The formats of a quantised folder: what a server calls its dtype is that of the rest."""
    try:
        config = with_modelopt(folder.path, read_json(folder.path / "config.json"))
    except (OSError, ValueError):
        return {}
    name = stored_in(folder.path, config)
    if name not in PRECISIONS:
        return {}
    classes = ("weights", "activations") if narrows_activations(config) else ("weights",)
    kept, source = precision(name).classes("inference"), "quantization_config of the folder"
    return {f"precision.{each}": declared(kept[each], source) for each in classes} | _head(folder.path)


def _online(recipe: Recipe, spec: RunSpec, fields: Mapping[str, Fact]) -> dict[str, Fact]:
    """The formats of a wide folder that the server says it quantised while loading. A kernel that widens the weights
    again (Marlin) leaves activations as they are."""
    said = fields.get(_QUANTISED)
    name = spec.precision.name
    if name not in recipe.online or said is None or not str(said.value).startswith(QUANTISED_BY):
        return {}
    if contradicts(name, str(said.value)):
        return {}
    kept = spec.precision.classes("inference")
    classes = ("weights",) if "marlin" in str(said.value).lower() else ("weights", "activations")
    return {f"precision.{each}": declared(kept[each], said.source) for each in classes}


def _head(folder: Path) -> dict[str, Fact]:
    """The format of an output head that was not quantised with the rest."""
    try:
        kept = format_of_tensor(sorted(folder.glob("*.safetensors")), _HEAD)
    except BadInput as error:  # a server that can read it may serve it
        return {"precision.head": unknown(str(error))}
    return {"precision.head": observed(kept, f"{_HEAD} in the header of its file")} if kept else {}


def _model(spec: RunSpec, given: Given) -> dict[str, Fact]:
    folder = given.folder
    hash_source = "random weights made once, sha256 of the files" if folder.made else "sha256 of the files"
    hash_source += " that were quantised" if given.facts else ""
    regime = spec.precision
    known = {
        "model.id": declared(spec.workload.model, "the spec"),
        "model.weights_hash": observed(folder.digest, hash_source),
        "precision.name": declared(regime.name, "the spec"),
        "precision.compute": unknown("what the kernels computed in was not looked at"),
        "precision.method": declared(regime.method, "the spec"),
        "precision.calibration": declared("none", "a cast needs no data")
        if regime.name in TORCH_NAMES
        else unknown("the folder does not say with which data it was quantised"),
        "protocol.synchronisation": observed("tokens as they arrive at the client", "network/client.py"),
    }
    if folder.made:
        known["decoding.stop"] = observed("the limit: the config names no end of a sequence", "the model folder made")
    return known | dict(given.facts)


def checks(spec: RunSpec, fields: Mapping[str, Fact], left: tuple[str, ...] = ()) -> tuple[PrecisionCheck, ...]:
    """One line per tensor class. A server's word is no sight: where it agrees it stays unknown, else it differs.
    `left`: classes whose format is the runtime's own, and differs from nothing."""
    lines, quantised = [], fields.get(_QUANTISED)
    for name, asked in spec.precision.classes("inference").items():
        word = fields.get(_CLASSES.get(name, ""))
        if name == "weights" and quantised is not None and contradicts(spec.precision.name, str(quantised.value)):
            evidence = f"the server says so ({quantised.source})"
            lines.append(PrecisionCheck(name, asked, str(quantised.value), "differs", "unknown", evidence))
        elif word is None:
            lines.append(PrecisionCheck(name, asked, None, "unknown", "unknown", "the server does not say"))
        elif name in left:
            evidence = f"the server says {word.value} ({word.source}); its memory was not looked at"
            lines.append(PrecisionCheck(name, "as shipped", None, "unknown", "unknown", evidence))
        elif word.value == asked:
            evidence = f"the server says {word.value} ({word.source}); its memory was not looked at"
            lines.append(PrecisionCheck(name, asked, None, "unknown", "unknown", evidence))
        else:
            evidence = f"the server says so ({word.source})"
            lines.append(PrecisionCheck(name, asked, str(word.value), "differs", "unknown", evidence))
    return tuple(lines)


def _silence(path: str) -> Finding:
    return Finding("page-silent", "notes", path.partition("?")[0])


def _findings(recipe: Recipe, folder: ModelFolder) -> tuple[Finding, ...]:
    untried = [] if recipe.tried else [Finding("launcher-untried", "notes", recipe.name)]
    return (*untried, *([Finding("random-weights-served", "notes")] if folder.made else []))
