"""Document of a pack that was checked: the verdict first, then who measured, when, and on what."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from twinlens.pack.check import Checked
from twinlens.reporting import display
from twinlens.reporting.document.block import Block, Document, Line, Tone, row
from twinlens.reporting.wording.finding import sentence_of

_MARKS: dict[str, tuple[str, Tone]] = {"disqualifies": ("✗", "bad"), "warns": ("!", "doubt"), "notes": ("·", "good")}


def checked_document(checked: Checked) -> Document:
    """What was found, worst first; what the pack says of itself where that part is as it was packed."""
    return Document.of("Evidence pack", _verdict(checked), _blocks(checked))


def _blocks(checked: Checked) -> Iterator[Block]:
    tone: Tone = "bad" if not checked.is_good else "good" if checked.is_signed else "doubt"
    yield Line(_verdict(checked), tone, is_lead=True)
    for finding in checked.findings:
        mark, tone = _MARKS[finding.severity]
        yield row(mark, [sentence_of(finding)], tone)
    if checked.about:
        yield row("·", about_lines(checked.about), apart=True)


def _verdict(checked: Checked) -> str:
    if not checked.is_good:
        return "Do not rely on this pack."
    return "The pack is as it was signed." if checked.is_signed else "The pack fits its own checksums."


# The README of an evidence pack: what it holds, who measured, and how to check it with and without Twinlens.

_CHECK = """How to check it

  With Twinlens:     twinlens evidence --verify FILE.zip
  and with a file of keys that you trust (ssh's allowed_signers, "NAME ssh-ed25519 AAAA…" a line):
                     twinlens evidence --verify FILE.zip --signers allowed_signers

  Without Twinlens, in the unpacked folder:
                     sha256sum -c SHA256SUMS
"""
_SIGNED = """\
                     ssh-keygen -Y check-novalidate -n twinlens-evidence -s SHA256SUMS.sig < SHA256SUMS
  The first finds a changed file; the second says which key signed the checksums. Compare its fingerprint
  with one that the signer gave you another way: a key in this pack would prove nothing.
"""
_UNSIGNED = """\
  This pack is not signed: the checksums find damage, and do not say who made them.
"""
_REST = """
What is in it

  runs/            the run folders: what was asked (study.json, spec.toml), what ran (run.json), every step or
                   request and the telemetry (*.arrows, with a checksum of each batch)
  report.html      the report: open it in a browser; it fetches nothing
  show.txt         every figure of every run, and how it was computed (in each run folder: figures.json)
{comparison}  evidence.json    who, when, on what, and for each folder the SHA-256 of every file as it lay
                   there, also of those that are not in the pack (logs, weights)
  SHA256SUMS       the SHA-256 of every file of this pack

  `twinlens show runs` in the unpacked folder works all figures out again from the rows.

What was covered or left out

  {covered}
  Logs are left out, links were not followed. Copies with covered words differ from the files they were made of;
  evidence.json has the checksums of both.
"""


def readme(about: Mapping[str, Any], *, is_signed: bool, has_comparison: bool) -> str:
    """The text. `about`: what evidence.json holds."""
    comparison = "  comparison.*     whether the points may be compared, and how far apart they are\n"
    covered = about.get("covered_words")
    words = f"{covered} words are" if covered != 1 else "1 word is"
    said = (
        f"{words} covered with asterisks: names of home folders, keys, passwords." if covered else "No word is covered."
    )
    return "\n".join(
        ["Evidence of a measurement", "", *about_lines(about), "", _CHECK + (_SIGNED if is_signed else _UNSIGNED)]
    ) + _REST.format(comparison=comparison if has_comparison else "", covered=said)  # fmt: skip


def about_lines(about: Mapping[str, Any]) -> list[str]:
    """Who measured, when and on what, a line each. Text of somebody else is made safe to show."""
    runs = [run for run in _list(about.get("runs")) if isinstance(run, dict)]
    machines = list(dict.fromkeys(_said(run.get("machine")) for run in runs))
    begun = sorted(_said(run.get("started_utc")) for run in runs)
    first, last = (begun[0][:10], begun[-1][:10]) if begun else ("", "")
    when = first if first == last else f"{first} to {last}"
    lines = [
        f"measured by  {_who(about.get('measured_by'))}",
        f"measured on  {'; '.join(machines[:4]) or 'not stated'}",
        f"measured     {when or 'not stated'}, {len(runs)} run{'' if len(runs) == 1 else 's'}",
        f"packed       {_said(about.get('made_utc'))}, by Twinlens {_said(about.get('twinlens'))}",
    ]
    return lines


def _who(author: Any) -> str:
    author = author if isinstance(author, dict) else {}
    parts = [_said(author[key]) for key in ("name", "organisation", "contact", "role") if author.get(key)]
    return ", ".join(parts) or "not stated"


def _said(value: Any) -> str:
    return display.clean(str(value), 120) if value is not None else "not stated"


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
