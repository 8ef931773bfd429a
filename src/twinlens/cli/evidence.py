"""`twinlens evidence`: a pack of runs that others can check, the check of one, and which runs answer a question."""

from __future__ import annotations

from pathlib import Path

from twinlens.api.answers import answers, answers_json
from twinlens.api.evidence import evidence, verify
from twinlens.cli.screen import err, out, print_json, sentences
from twinlens.errors import BadInput, GateFailed
from twinlens.pack.sums import UNREADABLE, sha256_of_pieces
from twinlens.record.codec import encode
from twinlens.reporting.display import clean
from twinlens.reporting.document.terminal import screen
from twinlens.reporting.judging.answers import answers_document
from twinlens.reporting.judging.evidence import checked_document
from twinlens.reporting.wording.finding import sentence_of, with_words
from twinlens.version import __version__


def run(paths: list[Path], file: Path | None, who: dict[str, str | None], key: Path | None, json: bool) -> None:
    with sentences():
        if file is None:
            raise BadInput("an evidence pack is a file: -o FILE.zip", code=UNREADABLE)
        made = evidence(*paths, to=file, key=key, **who)
        if json:
            plain = {"schema": 1, "twinlens": __version__, "pack": str(made.resolve()), "signed": key is not None}
            print_json(plain | {"sha256": sha256_of_pieces((made.read_bytes(),))})
        signed = "signed" if key is not None else "not signed (--key FILE signs it)"
        err().print(f"evidence: {made.resolve()}, {signed}", soft_wrap=True)


def run_for(paths: list[Path], question: str, json: bool) -> None:
    with sentences():
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


def run_verify(file: Path, signers: Path | None, json: bool) -> None:
    with sentences():
        found = verify(file, signers)
        if json:
            print_json(with_words({"schema": 1, "twinlens": __version__} | encode(found)))
        else:
            out().print(screen(checked_document(found)))
        if not found.is_good:
            raise GateFailed(f"{file.name} does not pass: {sentence_of(found.findings[0])}")
