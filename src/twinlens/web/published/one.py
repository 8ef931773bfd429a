"""Runs of one pack, read again from their rows: findings, figures, the report, and first rows."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from twinlens.api.diagnose import diagnoser
from twinlens.api.judging.recomputed import follows, material_in, unreadable
from twinlens.api.runs import answer_at
from twinlens.errors import BadInput
from twinlens.measurement.search_from_rows import searches_of
from twinlens.pack.archive import Archive
from twinlens.pack.check import ABOUT
from twinlens.pack.unpacked import unpacked
from twinlens.record.checksum import MARKS
from twinlens.record.codec import encode
from twinlens.record.run import ROWS
from twinlens.reporting.display import ABSENT, clean
from twinlens.reporting.document.html import fragment, links_of
from twinlens.reporting.report.page import report_document
from twinlens.reporting.view import Material, view
from twinlens.stats.run_summary import to_json
from twinlens.system.document import json_of
from twinlens.web.published.packs import plain

FIRST_ROWS = 10
_RECORD, _REQUESTS = "run.json", "requests.arrows"
"""What a comparison of points reads: latencies of the same arrivals are compared request by request."""


def read_pack(path: Path, place: Path) -> dict[str, Any]:
    """The runs of a pack that was checked, as plain data; their records are kept below `place`.

    `findings`: whether all that the pack states follows from its rows; where it does not, nothing else is given.
    """
    try:
        with Archive(path) as archive:
            about = json_of(archive.text(ABOUT))
        with unpacked(path) as folder:
            try:
                return _read(path, folder, about, place)
            except BadInput as error:
                raise BadInput(plain(error, f"{folder}/", "")) from None
    except (BadInput, ValueError) as error:
        return {"findings": [encode(unreadable(BadInput(plain(error, path, path.name))))]}


def _read(path: Path, folder: Path, about: Mapping[str, Any], place: Path) -> dict[str, Any]:
    material = material_in(folder, about)
    findings = tuple(follows(path, folder, material, about))
    told: dict[str, Any] = {"findings": [encode(each) for each in findings]}
    if any(each.severity == "disqualifies" for each in findings):
        return told
    document = report_document(view(material, None, searches_of([run for run, _ in material])), diagnoser(material))
    told |= {
        "title": document.title, "subject": document.subject.splitlines(), "extent": document.extent,
        "links": links_of(document), "report": fragment(document),
    }  # fmt: skip
    answer = answer_at([folder / "runs"])
    told |= {"verdict": fragment(answer.document()), "verdict_of": answer.document().title} if answer else {}
    return told | {"runs": [_run(each, folder, place) for each in material]}


def _run(each: Material, folder: Path, place: Path) -> dict[str, Any]:
    run, summary = each
    at = run.folder.relative_to(folder)
    (place / at).mkdir(parents=True)
    for file in (_RECORD, *(f"{_REQUESTS}{mark}" for mark in ("", MARKS))):
        if (run.folder / file).is_file():
            shutil.copyfile(run.folder / file, place / at / file)
    shown = run.table.slice(0, FIRST_ROWS)
    columns = [shown.column(name).to_pylist() for name in shown.column_names]
    return {
        "folder": str(at), "summary": to_json(summary), "id": clean(run.id, 120), "columns": shown.column_names,
        "rows": [[_cell(value) for value in row] for row in zip(*columns, strict=True)], "count": run.table.num_rows,
        "file": f"{at.as_posix()}/{ROWS[run.lens][0]}.arrows",
    }  # fmt: skip


def _cell(value: Any) -> str:
    if value is None:
        return ABSENT
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return f"[{len(value)} values]"
    return f"{value:.6g}" if isinstance(value, float) else clean(value, 80)


def written(told: Mapping[str, Any], file: Path) -> None:
    """Leave what was read of a pack in a file, whole or not at all."""
    fresh = file.with_suffix(".part")
    fresh.write_text(json.dumps(told), encoding="utf-8")
    fresh.replace(file)
