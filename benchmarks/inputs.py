"""Tables that constants are fitted to: `python -m benchmarks.inputs --data DIR` tells which of them are those listed.

The tables are others' and no part of this project. benchmarks/inputs.json has the SHA-256 of each, as tests hold
`planning/prediction/constants.json` to it, and where its rows come from: one place of each source, as the column
`provenance` names it. `--save` writes the list again, after a new fit.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import json
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("inputs.json")


def kept() -> dict[str, Any]:
    """The tables of the fit by name: `sha256`, `rows`, and `from`, a place of each source."""
    found: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
    return found


def table(path: Path) -> dict[str, Any]:
    """The same of a table as it lies there."""
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    places: dict[str, str] = {}
    for row in rows:
        places.setdefault(row["source"], row["provenance"])
    return {"sha256": hashlib.sha256(path.read_bytes()).hexdigest(), "rows": len(rows), "from": places}


def differing(folder: Path) -> list[str]:
    """Tables of the fit that are not there, or are others than these."""
    return [name for name, known in kept().items() if not (at := folder / name).is_file() or table(at) != known]


if __name__ == "__main__":
    ask = argparse.ArgumentParser(prog="python -m benchmarks.inputs", description=__doc__)
    ask.add_argument("--data", type=Path, required=True, help="a folder of CSV files")
    ask.add_argument("--save", action="store_true")
    asked = ask.parse_args()
    if asked.save:
        found = {path.name: table(path) for path in sorted(asked.data.glob("*.csv"))}
        FILE.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    other = differing(asked.data)
    for name, known in kept().items():
        print(f"{'differs' if name in other else 'as listed'}  {name}  {known['rows']} rows, {known['sha256'][:12]}")
        for source, place in known["from"].items():
            print(f"    {source}: {place}")
