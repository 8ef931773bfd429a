"""The verbs on evidence packs: make one of runs, and check one."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from twinlens.api.judging.pack_texts import as_given, comparison_texts, texts_of
from twinlens.api.judging.recomputed import README, about_run, recomputed
from twinlens.api.question import asks
from twinlens.api.questions import EVIDENCE, Evidence
from twinlens.api.runs import material_of, read
from twinlens.errors import BadInput
from twinlens.executors.launch.options import is_secret
from twinlens.pack.archive import write_archive
from twinlens.pack.check import ABOUT, FIGURES, Checked, check_pack
from twinlens.pack.contents import Author, Copies, copies_of
from twinlens.pack.run_folder import Cover, cover_of
from twinlens.pack.signature import sign
from twinlens.pack.sums import SIGNATURE, SUMS, UNREADABLE, sha256_of_pieces, sums_text
from twinlens.pack.unpacked import laid_out
from twinlens.record.codec import encode
from twinlens.record.run import Run
from twinlens.record.store import now_utc, read_run
from twinlens.reporting.judging.evidence import readme
from twinlens.stats.run_summary import to_json
from twinlens.stats.summary.group import Summary
from twinlens.version import __version__

if TYPE_CHECKING:
    from twinlens.api.words import EvidenceWords

_SCHEMA = 1


@asks(EVIDENCE)
def evidence(
    *runs: str | Path | Run | Iterable[Run],
    to: str | Path,
    **words: Unpack[EvidenceWords],
) -> Path:
    """Write one zip file that others can check: rows, specs, facts, report, tables, checksums. Returns its path.

    `name`, `organisation`, `contact`, `role` ("buyer", "vendor" or "third party"): who measured; nothing is guessed.
    `key`: a key file of ssh, with which `ssh-keygen` signs; without one the pack is not signed. Names of home folders,
    keys and passwords are covered. Raises BadInput (TL240, TL241).
    """
    asked = Evidence.read(EVIDENCE.name, words)
    author, path = Author(asked.name, asked.organisation, asked.contact, asked.role), Path(to)
    if not path.parent.is_dir():
        raise BadInput(f"there is no folder {str(path.parent)!r} for the pack; make it first", code=UNREADABLE)
    chosen = _runs(runs)
    if virtual := next((run for run, _ in chosen.values() if run.place == "simulated"), None):
        raise BadInput(f"{virtual.id} is simulated, and a pack holds what was measured: leave it out", code=UNREADABLE)
    cover = _cover(os.environ, asked.contact)
    numbers = {at: number for at, (_, number) in chosen.items()}
    try:
        copies = copies_of((run for run, _ in chosen.values()), cover)
        with laid_out(copies.members) as folder:  # of covered copies, as whoever checks them has
            texts = _texts(folder, numbers, copies, author, signed=asked.key is not None)
    except OSError as error:
        raise BadInput(f"{error.filename} cannot be read: {error.strerror}", code=UNREADABLE) from None
    members = copies.members | {each: text.encode("utf-8", "replace") for each, text in texts.items()}
    sums = sums_text({each: sha256_of_pieces((data,)) for each, data in members.items()}).encode()
    signature = {} if asked.key is None else {SIGNATURE: sign(sums, asked.key)}
    write_archive(path, {**members, SUMS: sums, **signature})
    return path


def verify(path: str | Path, signers: str | Path | None = None) -> Checked:
    """Check a pack: every checksum, the signature on them, and every figure and text, computed again from its rows.

    `signers`: ssh's file of allowed signers, which says whose a key is. Raises BadInput (TL240, TL241).
    """
    found = check_pack(Path(path), None if signers is None else Path(signers))
    return found.with_findings(recomputed(Path(path), found.about)) if found.is_good else found


def _texts(folder: Path, chosen: Mapping[Path, int], copies: Copies, author: Author, *, signed: bool) -> dict[str, str]:
    """All texts of a pack by name. `folder`: with the copies; `chosen`: runs, and the argument that gave each."""
    places = {at: copies.taken[at][0] for at in chosen}
    material = material_of([read_run(folder / place) for place in places.values()])
    runs = [
        about_run(*each) | {"given": number} | copies.of(at)
        for each, (at, number) in zip(material, chosen.items(), strict=True)
    ]
    studies = [copies.of(at) for at in copies.taken if at not in chosen]
    about = _about(author, runs, studies, copies.covered)
    texts = texts_of(material) | comparison_texts(as_given([run for run, _ in material], runs))
    texts[README] = readme(about, is_signed=signed, has_comparison="comparison.txt" in texts)
    texts[ABOUT] = json.dumps(about, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    return texts | {
        f"{place}/{FIGURES}": _dumped(each) for place, (_, each) in zip(places.values(), material, strict=True)
    }


def _dumped(summary: Summary) -> str:
    """Every figure of a run, of its rows, whatever summary.json says."""
    return json.dumps({"twinlens": __version__} | to_json(summary), indent=1, ensure_ascii=False) + "\n"


def _runs(given: Sequence[str | Path | Run | Iterable[Run]]) -> dict[Path, tuple[Run, int]]:
    """The runs by their folders, each once, and the argument that gives it."""
    chosen: dict[Path, tuple[Run, int]] = {}
    for number, each in enumerate(given):
        found = read(each) if isinstance(each, str | Path) else (each,) if isinstance(each, Run) else each
        chosen = {run.folder.resolve(): (run, number) for run in found} | chosen
    if not chosen:
        raise BadInput("evidence of what? Give run folders, and -o FILE.zip", code=UNREADABLE)
    return chosen


def _cover(environment: Mapping[str, str], contact: str | None) -> Cover:
    """Cover of this user's home folder, and of every secret that the environment holds."""
    secrets = (value for name, value in environment.items() if is_secret(name))
    return cover_of(str(Path.home()), secrets, (contact,) if contact else ())


def _about(author: Author, runs: list[dict[str, Any]], studies: list[dict[str, Any]], covered: int) -> dict[str, Any]:
    """What evidence.json holds: who, when, on what, and every file of each folder."""
    return {
        "schema": _SCHEMA,
        "twinlens": __version__,
        "made_utc": now_utc(),
        "measured_by": encode(author),
        "runs": runs,
        "studies": studies,
        "covered_words": covered,
    }
