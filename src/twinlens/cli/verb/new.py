"""`twinlens new`: a spec file to edit, from an example, from a run that is there, or from a server that is up."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from twinlens.api.measuring.spec_asked import new
from twinlens.api.questions import New
from twinlens.cli.screen import err, sentences
from twinlens.errors import BadInput

_NOTHING = (
    "from what? An example (`twinlens list examples`), --from a run folder, or a server that is up: --url http://…/v1"
)


def run(name: str, given: Mapping[str, Any]) -> None:
    with sentences():
        asked = New.read(name, given)
        if (asked.what is not None) + (asked.url is not None) + (asked.source is not None) != 1:
            raise BadInput(_NOTHING, code="TL204")
        if asked.source is not None and not asked.source.is_dir():
            sentence = f"--from needs the folder of a run or a study; {str(asked.source)!r} is neither"
            raise BadInput(sentence, code="TL205")
        words = asked.model_dump(exclude={"what", "source", "file"}, exclude_defaults=True)
        path = new(asked.source or asked.what, asked.file, **words)
        err().print(f"{path}: edit it, then `twinlens check {path}` and `twinlens measure {path}`", soft_wrap=True)
