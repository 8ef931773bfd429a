"""Checks of a pack: its checksums file by file, then the signature on them; findings, no sentences."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from twinlens.errors import BadInput
from twinlens.pack.archive import Archive, Damaged
from twinlens.pack.signature import check_signature
from twinlens.pack.sums import SIGNATURE, SUMS, UNREADABLE, read_sums, sha256_of_pieces
from twinlens.record.finding import Finding
from twinlens.record.foreign_text import in_one_line
from twinlens.record.run import Run
from twinlens.stats.run_summary import to_json
from twinlens.stats.summary.group import Summary
from twinlens.system.document import json_of

ABOUT = "evidence.json"
_MOST_NAMES = 20
_ORDER = ("disqualifies", "warns", "notes")


@dataclass(frozen=True, slots=True)
class Checked:
    """What a pack was found to be. `about`: its evidence.json, which anybody may have written; {} where it is changed.

    `findings`: those that disqualify first (changed, missing, added, a wrong signature), then the rest.
    """

    findings: tuple[Finding, ...]
    about: Mapping[str, Any]

    def __repr__(self) -> str:
        codes = ", ".join(each.code for each in self.findings)
        return in_one_line(f"<Checked: {'passes' if self.is_good else 'does not pass'} ({codes})>")

    @property
    def is_good(self) -> bool:
        """Whether nothing was changed, and the signature, where there is one or one was asked for, is right."""
        return not any(each.severity == "disqualifies" for each in self.findings)

    @property
    def is_signed(self) -> bool:
        """Whether a good signature stands on it."""
        return any(each.code in ("pack-signed", "pack-signer-unknown") for each in self.findings)

    def with_findings(self, more: Iterable[Finding]) -> Checked:
        """The same with more findings, worst first."""
        findings = sorted((*self.findings, *more), key=lambda each: _ORDER.index(each.severity))
        return Checked(tuple(findings), self.about)

    def __json__(self) -> dict[str, Any]:
        return {"good": self.is_good, "findings": self.findings, "about": self.about}


def check_pack(path: Path, signers: Path | None = None) -> Checked:
    """Read a pack without unpacking it. `signers`: ssh's allowed_signers, by which a key is somebody's.

    Raises BadInput (TL240) for what is no pack, and (TL241) where a signature cannot be checked.
    """
    with Archive(path) as archive:
        if SUMS not in archive.names:
            raise BadInput(f"{path} is no evidence pack: it has no {SUMS}", code=UNREADABLE)
        text = archive.text(SUMS)
        wanted = read_sums(text)
        found = {name: _hash(archive, name) for name in archive.names if name not in (SUMS, SIGNATURE)}
        signature = archive.text(SIGNATURE) if SIGNATURE in archive.names else None
        whole = found.get(ABOUT) is not None and found.get(ABOUT) == wanted.get(ABOUT)
        about = _about(archive) if whole else {}
    return Checked((), about).with_findings((*_compared(wanted, found), *_signature(text, signature, signers)))


def _hash(archive: Archive, name: str) -> str | None:
    """The SHA-256 of a file; None where its bytes cannot be read, so they are not those that were packed."""
    try:
        return sha256_of_pieces(archive.pieces(name))
    except Damaged:
        return None


def _compared(wanted: Mapping[str, str], found: Mapping[str, str | None]) -> Iterator[Finding]:
    changed = [name for name in wanted if name in found and found[name] != wanted[name]]
    missing = [name for name in wanted if name not in found]
    added = [name for name in found if name not in wanted]
    if changed:
        yield Finding("pack-changed", "disqualifies", "", named(changed))
    if missing:
        yield Finding("pack-missing", "disqualifies", "", named(missing))
    if added:
        yield Finding("pack-added", "disqualifies", "", named(added))
    if not (changed or missing or added):
        yield Finding("pack-whole", "notes", "", {"files": len(wanted)})


def named(names: list[str]) -> dict[str, Any]:
    """How many files, and the first of their names."""
    return {"count": len(names), "names": sorted(in_one_line(name, 120) for name in names)[:_MOST_NAMES]}


def _signature(sums: str, signature: str | None, signers: Path | None) -> Iterator[Finding]:
    if signature is None:
        yield Finding("pack-unsigned", "disqualifies" if signers else "warns")
        return
    signed = check_signature(sums.encode(), signature.encode(), signers)
    numbers = {"key": in_one_line(signed.key, 120)}
    if not signed.is_good:
        yield Finding("pack-signature-wrong", "disqualifies")
    elif signed.signer is not None:
        yield Finding("pack-signed", "notes", in_one_line(signed.signer, 120), numbers)
    else:
        yield Finding("pack-signer-unknown", "disqualifies" if signers else "warns", "", numbers)


def _about(archive: Archive) -> Mapping[str, Any]:
    try:
        data = json_of(archive.text(ABOUT))
    except ValueError:
        return {}
    return data if isinstance(data, dict) else {}


# Checks on the rows of a pack: values that no run can have, whoever signed them.

_SLACK_S = 3.0  # start and end are written in whole seconds
_MOST_OF_CEILING = 1.2  # a ceiling is measured, too
_TIMES = "%Y-%m-%dT%H%M%SZ"
_SHARES = ("mfu", "mbu")


def implausible(run: Run, summary: Summary) -> Iterator[Finding]:
    """One finding for each kind of value that cannot be; none for a run that may have happened."""
    if run.place == "simulated":
        yield Finding("pack-implausible", "disqualifies", run.id, {"what": "simulated"})
    for what, numbers in (*_rows(run), *_wall_time(run), *_ceilings(summary)):
        yield Finding("pack-implausible", "disqualifies", run.id, {"what": what} | dict(numbers))


def _rows(run: Run) -> Iterator[tuple[str, Mapping[str, Any]]]:
    if run.lens != "inference" or not run.table.num_rows:
        return
    rows = run.requests
    counts = {
        "tokens-above-limit": rows.ok & (rows.output_tokens > rows.asked_tokens),  # NaN where none was asked
        "sent-before-due": rows.sent_ns < rows.intended_ns,
        "ended-before-sent": rows.ok & (rows.end_ns < rows.sent_ns),
        "tokens-before-sent": _before(rows.chunk_ns, rows.offsets, rows.sent_ns),
    }
    for what, wrong in counts.items():
        if count := int(np.count_nonzero(wrong)):
            yield what, {"count": count, "rows": len(rows)}


def _before(chunk_ns: np.ndarray, offsets: np.ndarray, sent_ns: np.ndarray) -> np.ndarray:
    """`sent_ns` [n]: rows whose first chunk came before they were sent."""
    some = offsets[:-1] < offsets[1:]
    found = np.zeros(len(sent_ns), dtype=bool)
    found[some] = chunk_ns[offsets[:-1][some]] < sent_ns[some]
    return found


def _wall_time(run: Run) -> Iterator[tuple[str, Mapping[str, Any]]]:
    try:
        began, ended = (datetime.strptime(each, _TIMES) for each in (run.started_utc, run.ended_utc or ""))
    except ValueError:
        return
    if run.place in ("recorded", "simulated") or not run.table.num_rows or run.spec.executor.kind == "fake":
        return  # their rows have a clock of their own
    begin = run.table.column("intended_ns" if run.lens == "inference" else "begin_ns").to_numpy().min()
    span_s = float(run.table.column("end_ns").to_numpy().max() - begin) / 1e9
    wall_s = (ended - began).total_seconds()
    if span_s > wall_s + _SLACK_S:
        yield "longer-than-the-run", {"rows_s": span_s, "run_s": wall_s}


def _ceilings(summary: Summary) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for name in _SHARES:
        share = summary.metrics.get(name)
        if share is not None and share.value is not None and share.value > _MOST_OF_CEILING:
            yield "above-ceiling", {"metric": name, "share": share.value}


# Figures of a pack beside those that its own rows give: each that differs is named.

FIGURES = "figures.json"
"""The summary of a run, in its folder of a pack; not summary.json, which reading renews."""
_SAME = 1e-6  # the last digits of a float are the processor's
_ABSENT = "nothing"
_PARTS = ("value", "low", "high", "label")
_OF_PROGRAM = ("twinlens", "schema")


def figures_of(packed: Mapping[str, Any], summary: Summary, *, whole: bool) -> Iterator[tuple[str, Any, Any]]:
    """Each figure: its name, what figures.json says, and what the rows say. `whole`: every word is compared, as the
    same version wrote it; else the numbers that it states."""
    if not packed:
        yield FIGURES, _ABSENT, "figures of its rows"
        return
    stated, given = _parts(packed), _parts(json_of(json.dumps(to_json(summary))))
    for place in dict.fromkeys([*stated, *given]) if whole else stated:
        said, true = stated.get(place, _ABSENT), given.get(place, _ABSENT)
        if place[0] not in _OF_PROGRAM and (whole or (place[-1] in _PARTS and said is not None)):
            name = ".".join(place[1:] if place[0] == "metrics" else place).removesuffix(".value")
            if _is_number(said) or _is_number(true) or not is_same(said, true):
                yield name, said, true


def is_same(stated: Any, given: Any) -> bool:
    """Whether two figures are the same but for rounding."""
    if _is_number(stated) and _is_number(given):
        return math.isclose(stated, given, rel_tol=_SAME, abs_tol=1e-12)
    return bool(stated == given)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _parts(data: Any, place: tuple[str, ...] = ()) -> dict[tuple[str, ...], Any]:
    """Every value of nested tables and lists, by where it stands; an empty one stands for itself."""
    items = data.items() if isinstance(data, Mapping) else enumerate(data) if isinstance(data, list) else ()
    found = {spot: each for key, value in items for spot, each in _parts(value, (*place, str(key))).items()}
    return found or {place: data}
