"""Servers that a gateway starts itself, by the launchers that measurements use, and ends with itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from twinlens.errors import BadInput
from twinlens.executors.registry import launcher
from twinlens.gateway.backend import Backend, backend_of
from twinlens.gateway.settings import CODE, BackendSettings, GatewaySettings
from twinlens.spec.load import load


@contextmanager
def backends_up(
    settings: GatewaySettings, beside: Path, out: Path, say: Callable[[str], None]
) -> Iterator[tuple[Backend, ...]]:
    """All backends while the block runs, those with `launch` started, all at once. Specs are named from `beside`.

    Raises BadInput (TL275) for a spec that starts no server, and what its launcher raises.
    """
    starting = [each for each in settings.backend if each.launch]
    with ExitStack() as stack:
        urls: dict[str, tuple[str, str]] = {}
        if starting:
            out.mkdir(parents=True, exist_ok=True)
            with ThreadPoolExecutor(len(starting)) as pool:
                ups = [pool.submit(_launched, each, beside, out, say) for each in starting]
            for each, up in zip(starting, ups, strict=True):
                if up.exception() is None:
                    stack.callback(up.result().stop)
                    urls[each.name] = (up.result().running.url, up.result().running.model)
            for up in ups:
                up.result()
        yield tuple(_backend(each, *urls.get(each.name, ("", ""))) for each in settings.backend)


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


def _backend(settings: BackendSettings, url: str, model: str) -> Backend:
    named = settings if settings.model or not model else settings.model_copy(update={"model": model})
    return backend_of(named, url)
