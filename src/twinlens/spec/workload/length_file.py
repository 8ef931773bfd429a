"""Lengths that were seen, from one column of a CSV."""

from __future__ import annotations

import csv
from collections import Counter
from typing import TextIO

from twinlens.errors import BadInput, nearest


def lengths_seen(path: str, column: str) -> dict[str, list[int]]:
    """Distinct lengths in tokens, rising, and how often each was there. Raises BadInput (TL213) naming the line."""
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            counts = _counted(file, path, column)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise BadInput(f"cannot read the lengths in {path!r}: {error}", code="TL213") from None
    if not counts:
        raise BadInput(f"{path} has no rows under {column!r}", code="TL213")
    values = sorted(counts)
    return {"values": values, "counts": [counts[value] for value in values]}


def _counted(file: TextIO, path: str, column: str) -> Counter[int]:
    reader = csv.reader(file)
    header = [name.strip() for name in next(reader, [])]
    if column not in header:
        raise BadInput(f"{path}, line 1: no column {column!r}; {nearest(column, header)}", code="TL213")
    place, counts = header.index(column), Counter[int]()
    for row in reader:
        text = row[place].strip() if place < len(row) else ""
        if not row:
            continue
        if not text.isdecimal() or not int(text):
            raise BadInput(f"{path}, line {reader.line_num}: {column} is {text!r}, not a length", code="TL213")
        counts[int(text)] += 1
    return counts
