"""`twinlens new`: a spec file to edit, from an example, from a run that is there, or from a server that is up."""

from __future__ import annotations

from pathlib import Path

from twinlens.api.new import new
from twinlens.cli.asked import Asked, study_of
from twinlens.cli.screen import err, sentences
from twinlens.errors import BadInput
from twinlens.spec.study import Study

_NOTHING = (
    "from what? An example (`twinlens list examples`), --from a run folder, or a server that is up: --url http://…/v1"
)


def run(asked: Asked, source: Path | None, file: Path | None) -> None:
    with sentences():
        if (asked.spec is not None) + (asked.url is not None) + (source is not None) != 1:
            raise BadInput(_NOTHING, code="TL204")
        path = new(_what(asked, source), file)
        err().print(f"{path}: edit it, then `twinlens check {path}` and `twinlens measure {path}`", soft_wrap=True)


def _what(asked: Asked, source: Path | None) -> str | Path | Study:
    if source is not None and not source.is_dir():
        raise BadInput(f"--from needs the folder of a run or a study; {str(source)!r} is neither", code="TL205")
    if asked.spec is not None and not asked.settings and not asked.at and not asked.spec.startswith("http"):
        return asked.spec
    if source is not None and not asked.settings and not asked.at:
        return source
    spec = str(source) if source is not None else asked.spec
    return study_of(Asked(spec, asked.url, asked.model, asked.key_env, asked.settings, asked.at))[0]
