"""The verb that writes a spec file to edit: a shipped example as it stands, or what a study was asked for."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from twinlens.api.question import asks
from twinlens.api.questions import NEW, New
from twinlens.api.spec_asked import study_of
from twinlens.errors import BadInput
from twinlens.spec.load import dump, load
from twinlens.spec.source.example import find_example
from twinlens.spec.study import Study

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
