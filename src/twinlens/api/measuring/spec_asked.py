"""The study that a verb is asked for: a study, or a spec, an example, a run folder or a server, with settings."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from twinlens.api.question import asks
from twinlens.api.questions import NEW, Check, Measure, New
from twinlens.errors import BadInput
from twinlens.measurement.attach import attach
from twinlens.measurement.quick import given_up, quick, shared_by_rate
from twinlens.spec.load import dump, load
from twinlens.spec.source.example import find_example
from twinlens.spec.study import Study

_NOTHING = (
    "what is to be measured? A spec file, a shipped example (`twinlens list examples`), the folder of a run, or a "
    "server that is up: --url http://127.0.0.1:8000/v1"
)


def study_of(spec: Study | str | Path | None, asked: Measure | Check | New) -> tuple[Study, str]:
    """The study, and what --quick gives up ("" without it). `spec` may be an address: that is `url` then.

    Raises BadInput, also for settings beside a study, which has its own.
    """
    words = asked.model_dump(include={"url", "model", "key_env", "at", "set_", "on", "quick"}, exclude_defaults=True)
    if isinstance(spec, Study):
        if words:
            raise BadInput(f"--{next(iter(words)).rstrip('_').replace('_', '-')} changes a spec, and this is a study: "
                           "use study.at(...), or name its spec", code="TL204")  # fmt: skip
        return spec, ""
    url = words.get("url")
    if url is None and str(spec).startswith(("http://", "https://")):
        url, spec = str(spec), None
    settings = [*as_settings(asked.at), *_named(words, url is not None), *asked.set_]
    if words.get("on") is not None:
        settings.append(f"executor.options.on={json.dumps(words['on'])}")
    study = _study(url, spec, settings)
    if not words.get("quick"):
        return study, ""
    cut = _study(url, spec, [*quick(study), *settings])
    if not any(setting.startswith("protocol.duration_s") for setting in settings):
        cut = shared_by_rate(cut)
    return cut, given_up(study, cut)


def _study(url: str | None, spec: str | Path | None, settings: list[str]) -> Study:
    if url is not None:
        return attach(url, None if spec is None else str(spec), settings)
    if spec is None:
        raise BadInput(_NOTHING, code="TL204")
    return load(spec, settings)


def _named(words: dict[str, str], is_server: bool) -> list[str]:
    """--model and --key-env as the settings that they stand for."""
    if "key_env" in words and not is_server:
        raise BadInput("--key-env goes with --url; in a spec it is executor.options.api_key_env", code="TL204")
    places = {"model": "executor.options.model" if is_server else "workload.model",
              "key_env": "executor.options.api_key_env"}  # fmt: skip
    return [f"{place}={json.dumps(words[name])}" for name, place in places.items() if name in words]


def as_settings(at: Iterable[str]) -> list[str]:
    """`--at` as `--set`: `batch=1,4` sweeps the operating point, `sweep.batch=[1, 4]`, and `rate_per_s=search` is
    `search.over="rate_per_s"`. Raises BadInput for anything else.
    """
    settings = []
    for word in at:
        field, equals, values = word.partition("=")
        if not equals or not field.strip() or not values.strip():
            raise BadInput(f"--at wants FIELD=VALUE,VALUE, not {word!r}; for example --at batch=1,4", code="TL204")
        if values.strip() == "search":
            settings.append(f'search.over="{field.strip()}"')
            continue
        items = ", ".join(_literal(value.strip()) for value in values.split(","))
        settings.append(f"sweep.{field.strip()}=[{items}]")
    return settings


def _literal(value: str) -> str:
    if value in ("true", "false"):
        return value
    try:
        float(value)
    except ValueError:
        return f'"{value}"'
    return value


if TYPE_CHECKING:
    from twinlens.api.words import NewWords


@asks(NEW)
def new(source: str | Path | Study | None = None, to: str | Path | None = None, **words: Unpack[NewWords]) -> Path:
    """Write a spec to a new file, `to`, or one of its own name here, and return its path. No file is overwritten.

    `source`: the name of an example, which keeps its comments; a run or study folder, whose resolved spec it is; or a
    study. `url`: a server that is up. `at`, `set_`, `model` and `key_env` change what is written. Raises BadInput.
    """
    asked = New.read(NEW.name, words)
    if words or source is None or str(source).startswith(("http://", "https://")):
        source, _ = study_of(source, asked)
    name, text = _text(source)
    path = Path(f"{name}.toml" if to is None else to)
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        sentence = f"{path} is there already, and is not overwritten; take another name: -o FILE.toml"
        raise BadInput(sentence, code="TL224") from None
    except OSError as error:
        raise BadInput(f"{path} cannot be written: {error.strerror or error}", code="TL224") from None
    return path


def _text(source: str | Path | Study) -> tuple[str, str]:
    if not isinstance(source, Study):
        example = None if Path(source).is_file() else find_example(str(source))
        if example is not None and not Path(source).is_dir():
            return example.name, example.text
        source = load(source)
    return source.name, dump(source)
