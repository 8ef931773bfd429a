"""The verbs on evidence packs: make one of runs, and check one."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from twinlens.api.pack_texts import comparison_texts, texts_of
from twinlens.api.recomputed import recomputed
from twinlens.api.runs import material_of, read
from twinlens.errors import BadInput
from twinlens.executors.launch.options import is_secret
from twinlens.pack.archive import write_archive
from twinlens.pack.check import ABOUT, Checked, check_pack
from twinlens.pack.contents import Author, Copies, copies_of, covered_members
from twinlens.pack.figures import FIGURES
from twinlens.pack.private import Cover, cover_of
from twinlens.pack.signature import sign
from twinlens.pack.sums import SIGNATURE, SUMS, UNREADABLE, sha256_of_pieces, sums_text
from twinlens.record.run import Run
from twinlens.record.store import now_utc
from twinlens.reporting.text.evidence_readme import readme
from twinlens.reporting.view import Material
from twinlens.stats.run_summary import to_json
from twinlens.stats.summary.group import Summary
from twinlens.version import __version__

_SCHEMA = 1


def evidence(
    *runs: str | Path | Run | Iterable[Run],
    to: str | Path,
    name: str | None = None,
    organisation: str | None = None,
    contact: str | None = None,
    role: str | None = None,
    key: str | Path | None = None,
) -> Path:
    """Write one zip file that others can check: rows, specs, facts, report, tables, checksums. Returns its path.

    `name`, `organisation`, `contact`, `role` ("buyer", "vendor" or "third party"): who measured; nothing is guessed.
    `key`: a key file of ssh, with which `ssh-keygen` signs; without one the pack is not signed. Names of home folders,
    keys and passwords are covered. Raises BadInput (TL240, TL241).
    """
    author, path = Author(name, organisation, contact, role), Path(to)
    if not path.parent.is_dir():
        raise BadInput(f"there is no folder {str(path.parent)!r} for the pack; make it first", code=UNREADABLE)
    chosen = _runs(runs)
    cover = _cover(os.environ, contact)
    try:
        copies = copies_of(chosen, cover)
    except OSError as error:
        raise BadInput(f"{error.filename} cannot be read: {error.strerror}", code=UNREADABLE) from None
    material = material_of(chosen)
    texts = texts_of(material) | comparison_texts(runs)
    about = _about(author, material, copies)
    texts["README.txt"] = readme(about, is_signed=key is not None, has_comparison="comparison.txt" in texts)
    texts[ABOUT] = json.dumps(about, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    texts |= {f"{copies.taken[run.folder.resolve()][0]}/{FIGURES}": _dumped(summary) for run, summary in material}
    members = copies.members | covered_members(texts, cover)
    sums = sums_text({each: sha256_of_pieces((data,)) for each, data in members.items()}).encode()
    signature = {} if key is None else {SIGNATURE: sign(sums, Path(key))}
    write_archive(path, {**members, SUMS: sums, **signature})
    return path


def verify(path: str | Path, signers: str | Path | None = None) -> Checked:
    """Check a pack: every checksum, the signature on them, and every figure and text, computed again from its rows.

    `signers`: ssh's file of allowed signers, which says whose a key is. Raises BadInput (TL240, TL241).
    """
    found = check_pack(Path(path), None if signers is None else Path(signers))
    return found.with_findings(recomputed(Path(path), found.about)) if found.is_good else found


def _dumped(summary: Summary) -> str:
    """Every figure of a run, of its rows, whatever summary.json says."""
    return json.dumps({"twinlens": __version__} | to_json(summary), indent=1, ensure_ascii=False) + "\n"


def _runs(given: Sequence[str | Path | Run | Iterable[Run]]) -> tuple[Run, ...]:
    chosen: dict[Path, Run] = {}
    for each in given:
        found = read(each) if isinstance(each, str | Path) else (each,) if isinstance(each, Run) else each
        chosen.update({run.folder.resolve(): run for run in found})
    if not chosen:
        raise BadInput("evidence of what? Give run folders, and -o FILE.zip", code=UNREADABLE)
    return tuple(chosen.values())


def _cover(environment: Mapping[str, str], contact: str | None) -> Cover:
    """Cover of this user's home folder, and of every secret that the environment holds."""
    secrets = (value for name, value in environment.items() if is_secret(name))
    return cover_of(str(Path.home()), secrets, (contact,) if contact else ())


def _about(author: Author, material: Sequence[Material], copies: Copies) -> dict[str, Any]:
    """What evidence.json holds: who, when, on what, and every file of each folder."""
    runs = [_run(*each) | copies.of(each[0].folder.resolve()) for each in material]
    folders = {run.folder.resolve() for run, _ in material}
    return {
        "schema": _SCHEMA,
        "twinlens": __version__,
        "made_utc": now_utc(),
        "measured_by": author.to_json(),
        "runs": runs,
        "studies": [copies.of(folder) for folder in copies.taken if folder not in folders],
        "covered_words": copies.covered,
    }


def _run(run: Run, summary: Any) -> dict[str, Any]:
    machine = summary.machine
    return {
        "id": run.id, "lens": run.lens, "model": summary.model, "executor": summary.executor, "point": summary.point,
        "started_utc": run.started_utc, "ended_utc": run.ended_utc, "state": run.state, "twinlens": run.version,
        "machine": f"{machine.name} ({machine.software})" if machine else None, "ranked": summary.ranked,
    }  # fmt: skip
