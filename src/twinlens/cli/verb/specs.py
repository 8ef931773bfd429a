"""`twinlens new`, a spec file to edit; `twinlens check`, whether one can be measured and what theory says of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from twinlens.api.measuring.spec_asked import new
from twinlens.api.measuring.studies import check
from twinlens.api.questions import Check, New
from twinlens.cli.console import out
from twinlens.cli.screen import err, print_json, sentences
from twinlens.errors import BadInput
from twinlens.reporting.document.terminal import screen
from twinlens.reporting.judging.check import check_document

_NOTHING = (
    "from what? An example (`twinlens list examples`), --from a run folder, or a server that is up: --url http://…/v1"
)


def written(name: str, given: Mapping[str, Any]) -> None:
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


def checked(name: str, given: Mapping[str, Any]) -> None:
    with sentences():
        asked = Check.read(name, given)
        found = check(asked.spec, refuse=False, at=asked.at, set_=asked.set_)
        if asked.json_:
            print_json(found.to_json())
        else:
            out().print(screen(check_document(found), whole=asked.all_))
        for sentence in found.lacking:
            err().print(f"! not measured, the others are: {sentence}", style="yellow", markup=False)
        if found.refusal is not None:
            raise found.refusal
