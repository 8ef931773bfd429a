"""Servers that a gateway starts itself, by the launchers that measurements use, and ends with itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from twinlens.errors import BadInput
from twinlens.executors.registry import launcher
from twinlens.gateway.backend import Backend, backend_of
from twinlens.gateway.settings import CODE, BackendSettings, GatewaySettings, read_settings
from twinlens.spec.load import load


@dataclass(frozen=True, slots=True)
class Up:
    """A server that was started: its address as far as /v1, and the model as it calls it."""

    url: str
    model: str


@contextmanager
def backends_up(
    settings: GatewaySettings, beside: Path, out: Path, say: Callable[[str], None]
) -> Iterator[dict[str, Up]]:
    """The servers of backends with `launch`, up while the block runs, started all at once. Specs are named from
    `beside`; their logs go to `out`.

    Raises BadInput (TL275) for a spec that starts no server, and what its launcher raises.
    """
    starting = [each for each in settings.backend if each.launch]
    with ExitStack() as stack:
        ups: dict[str, Up] = {}
        if starting:
            out.mkdir(parents=True, exist_ok=True)
            with ThreadPoolExecutor(len(starting)) as pool:
                tries = [pool.submit(_launched, each, beside, out, say) for each in starting]
            for each, tried in zip(starting, tries, strict=True):
                if tried.exception() is None:
                    stack.callback(tried.result().stop)
                    ups[each.name] = Up(tried.result().running.url, tried.result().running.model)
            for tried in tries:
                tried.result()
        yield ups


def backends_of(settings: GatewaySettings, ups: Mapping[str, Up], beside: Path = Path()) -> tuple[Backend, ...]:
    """All backends of a file, with what was measured of each; runs and files of certificates are named from `beside`.

    Raises BadInput (TL275), also for a server that would have to be started now, and (TL276, TL277) for runs that say
    nothing of a server.
    """
    made = tuple(_backend(_at(each, beside), ups.get(each.name)) for each in settings.backend)
    return tuple(_with_run(each, of, settings, beside) for each, of in zip(made, settings.backend, strict=True))


def _at(settings: BackendSettings, beside: Path) -> BackendSettings:
    return settings.model_copy(update={"ca_file": str(beside / settings.ca_file)}) if settings.ca_file else settings


def _with_run(backend: Backend, of: BackendSettings, settings: GatewaySettings, beside: Path) -> Backend:
    if not of.run:
        return backend
    from twinlens.gateway.routing.measured import measured_of

    path, at, point = of.run.partition("@")
    named = str(beside / path) + at + point
    try:
        return replace(backend, measured=measured_of(named, settings.slo_ttft_s, settings.slo_tpot_s))
    except BadInput as wrong:
        raise BadInput(f"backend {backend.name!r}: {wrong}", code=wrong.code) from None


def _launched(settings: BackendSettings, beside: Path, out: Path, say: Callable[[str], None]) -> Any:
    named = beside / settings.launch
    study = load(named if named.exists() else settings.launch)
    spec = study.runs()[0]
    starter = launcher(spec.executor.kind)
    if starter is None:
        sentence = (
            f"backend {settings.name!r}: {settings.launch} starts no server: its executor is {spec.executor.kind}"
        )
        raise BadInput(sentence, code=CODE)
    up = starter.launch(spec, out / f"{settings.name}.log", lambda phrase: say(f"{settings.name}: {phrase}"))
    say(f"{settings.name}: {up.running.model} is up at {up.running.url} after {up.running.ready_s:.1f} s")
    return up


def _backend(settings: BackendSettings, up: Up | None) -> Backend:
    if up is None:
        if settings.launch:
            raise BadInput(f"backend {settings.name!r} is started with the gateway alone; start it anew", code=CODE)
        return backend_of(settings)
    named = settings if settings.model else settings.model_copy(update={"model": up.model})
    return backend_of(named, up.url)


def checked(config: Path) -> list[str]:
    """Meaning of a file: a line for the whole, and one for each backend, asked now. Raises as `backends_of` does."""
    from twinlens.gateway.routing.identity import identified

    settings = read_settings(config)
    started = [each.name for each in settings.backend if each.launch]
    asked = settings.model_copy(update={"backend": tuple(each for each in settings.backend if not each.launch)})
    with ThreadPoolExecutor(max(1, len(asked.backend))) as pool:
        found = list(pool.map(identified, backends_of(asked, {}, config.parent)))
    keys = f"{len(settings.key)} keys" if settings.key else "no keys"
    head = (
        f"{len(settings.backend)} backends, policy {settings.policy}, after a loss: {settings.stream_failure}, {keys}"
    )
    told = [f"{each.name} at {each.url}: {each.model or 'no model known'}; {each.identity}"
            f"{f' ({each.why})' if each.why else ''}" for each in found]  # fmt: skip
    return [head, *told, *(f"{name}: is started with the gateway" for name in started)]
