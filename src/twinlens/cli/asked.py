"""The study that the command line of `measure` and `new` asks for: from a spec, an example, a run folder, or a
server.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from twinlens.cli.settings import as_settings
from twinlens.errors import BadInput
from twinlens.measurement.attach import attach
from twinlens.measurement.quick import given_up, quick, shared_by_rate
from twinlens.spec.load import load
from twinlens.spec.study import Study

_NOTHING = (
    "what is to be measured? A spec file, a shipped example (`twinlens list examples`), the folder of a run, or a "
    "server that is up: --url http://127.0.0.1:8000/v1"
)


@dataclass(frozen=True, slots=True)
class Asked:
    """The arguments that say what to measure. `spec` may be an address: that is `url` then."""

    spec: str | None = None
    url: str | None = None
    model: str | None = None
    key_env: str | None = None
    settings: tuple[str, ...] = ()
    at: tuple[str, ...] = ()
    quick: bool = False


def study_of(asked: Asked) -> tuple[Study, str]:
    """The study, and what --quick gives up ("" without it). Raises BadInput."""
    settings = [*as_settings(list(asked.at)), *_of_server(asked), *asked.settings]
    study = _study(asked, settings)
    if not asked.quick:
        return study, ""
    cut = _study(asked, [*quick(study), *settings])
    if not any(setting.startswith("protocol.duration_s") for setting in settings):
        cut = shared_by_rate(cut)
    return cut, given_up(study, cut)


def _study(asked: Asked, settings: list[str]) -> Study:
    url, spec = asked.url, asked.spec
    if url is None and spec is not None and spec.startswith(("http://", "https://")):
        url, spec = spec, None
    if url is not None:
        return attach(url, spec, settings)
    if spec is None:
        raise BadInput(_NOTHING, code="TL204")
    return load(spec, settings)


def _of_server(asked: Asked) -> list[str]:
    """--model and --key-env as the settings that they stand for."""
    is_server = asked.url is not None or (asked.spec or "").startswith(("http://", "https://"))
    if asked.key_env is not None and not is_server:
        raise BadInput("--key-env goes with --url; in a spec it is executor.options.api_key_env", code="TL204")
    where = "executor.options.model" if is_server else "workload.model"
    settings = [] if asked.model is None else [f"{where}={json.dumps(asked.model)}"]
    return settings + ([] if asked.key_env is None else [f"executor.options.api_key_env={json.dumps(asked.key_env)}"])
