"""`twinlens evidence`: a pack of runs that others can check, the check of one, and which runs answer a question."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from twinlens.api.judging.answers import answers, answers_json
from twinlens.api.judging.evidence import evidence, verify
from twinlens.api.questions import Evidence
from twinlens.cli.console import out
from twinlens.cli.screen import err, print_json, sentences
from twinlens.errors import BadInput, GateFailed
from twinlens.pack.sums import UNREADABLE, sha256_of_pieces
from twinlens.record.codec import encode
from twinlens.reporting.display import clean
from twinlens.reporting.document.terminal import screen
from twinlens.reporting.judging.answers import answers_document
from twinlens.reporting.judging.evidence import checked_document
from twinlens.reporting.wording.finding import sentence_of, with_words
from twinlens.version import __version__


def run(name: str, given: Mapping[str, Any]) -> None:
    with sentences():
        asked = Evidence.read(name, given)
        if asked.verify is not None:
            _verify(asked.verify, asked.signers, asked.json_)
        elif asked.question is not None:
            _answer(asked.runs, asked.question, asked.json_)
        else:
            _pack(asked)


def _pack(asked: Evidence) -> None:
    if asked.file is None:
        raise BadInput("an evidence pack is a file: -o FILE.zip", code=UNREADABLE)
    who = asked.model_dump(include={"name", "organisation", "contact", "role", "key"})
    made, is_signed = evidence(*asked.runs, to=asked.file, **who), asked.key is not None
    if asked.json_:
        plain = {"schema": 1, "twinlens": __version__, "pack": str(made.resolve()), "signed": is_signed}
        print_json(plain | {"sha256": sha256_of_pieces((made.read_bytes(),))})
    signed = "signed" if is_signed else "not signed (--key FILE signs it)"
    err().print(f"evidence: {made.resolve()}, {signed}", soft_wrap=True)


def _answer(paths: Iterable[Path], question: str, json: bool) -> None:
    found = answers(*paths, to=question)
    if json:
        print_json(answers_json(found))
        return
    for place, each in enumerate(found):
        if place:
            out().print()
        out().print(screen(answers_document(each.candidates)))
        if each.missing is not None:
            on = f" (on {each.missing.device})" if each.missing.device else ""
            command = each.missing.command  # a line to paste stays one, but for letters that command a terminal
            shown = command if command.isprintable() else clean(command, len(command))
            out().print(f"Missing{on}:\n  {shown}", soft_wrap=True, markup=False)
        elif each.lacks:
            out().print(f"No command can be given for the run that is missing: {each.lacks}.")


def _verify(file: Path, signers: Path | None, json: bool) -> None:
    found = verify(file, signers)
    if json:
        print_json(with_words({"schema": 1, "twinlens": __version__} | encode(found)))
    else:
        out().print(screen(checked_document(found)))
    if not found.is_good:
        raise GateFailed(f"{file.name} does not pass: {sentence_of(found.findings[0])}")
