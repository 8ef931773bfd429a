"""Accuracy of predictions: `python -m benchmarks.prediction --data DIR [-o PAGE] [--fit] [--no-folds]`.

Reads every CSV file of DIR that has the columns of public measurements. Each row is predicted or refused with a reason:
first by the constants that come with Twinlens, then by constants that were fitted without the row's device, model or
engine. `--fit` also writes the constants and their bands anew.
"""

from __future__ import annotations

import argparse
import json
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from benchmarks.columns import folded
from benchmarks.prediction.case import Case, Refused
from benchmarks.prediction.cases import read
from benchmarks.prediction.facts import misfit
from benchmarks.prediction.fitted import fitted
from benchmarks.prediction.folds import SPLITS, balance
from benchmarks.prediction.held_out import Predicted, band_table, by_folds, by_shipped, lens_of
from benchmarks.prediction.memory import predicted_bytes
from benchmarks.prediction.page import page
from benchmarks.prediction.serving import Serving, without_room
from benchmarks.prediction.training import Training
from twinlens.planning.prediction import band
from twinlens.planning.prediction.band import Calibrated, plain

CONSTANTS = Path(band.__file__).parent / "constants.json"


def main() -> None:
    ask = argparse.ArgumentParser(prog="python -m benchmarks.prediction", description=__doc__)
    ask.add_argument("--data", type=Path, required=True, help="a folder of CSV files")
    ask.add_argument("-o", "--output", type=Path, help="write the page here; it is printed without")
    ask.add_argument("--fit", action="store_true", help="fit the shipped constants anew to these files")
    ask.add_argument("--no-folds", action="store_true", help="only the shipped constants: seconds in place of minutes")
    given = ask.parse_args()
    cases, refused = parsed(given.data)
    timed = [case for case in cases if case.kind != "memory"]
    lenses = {lens: [case for case in timed if lens_of(case) == lens] for lens in ("serving", "training")}
    folds = {
        lens: {split: by_folds(own, split) for split in SPLITS}
        for lens, own in lenses.items()
        if own and not given.no_folds
    }
    if given.fit:
        written = {lens: plain(calibrated(own, folds.get(lens, {}), given.data)) for lens, own in lenses.items() if own}
        CONSTANTS.write_text(json.dumps(written, indent=1, sort_keys=True) + "\n", encoding="utf-8")
        band.shipped.cache_clear()
    known = band.shipped()
    whole = {lens: by_shipped(own, known[lens]) for lens, own in lenses.items() if own}
    text = page(whole, folds, memory([case for case in cases if case.kind == "memory"]), cases, refused, known)
    if given.output:
        given.output.write_text(folded(text), encoding="utf-8")
    else:
        print(text)


def parsed(folder: Path) -> tuple[list[Case], list[Refused]]:
    """Rows of a folder as cases; those whose weights have no room as stated are refused too."""
    cases, refused = read(folder)
    kept, bare = [], without_room(cases)
    for i, case in enumerate(cases):
        if why := misfit(case) or ("workers have no room for one sequence" if i in bare else ""):
            refused.append(Refused(why, case.file, case.kind, case.line))
        else:
            kept.append(case)
    return kept, refused


def memory(cases: list[Case]) -> Predicted | None:
    """Rows of memory by formulas, without a band."""
    if not cases:
        return None
    value = np.array([predicted_bytes(case) for case in cases])
    return Predicted(cases, value, value * np.nan, value * np.nan, "formulas")


def calibrated(cases: list[Case], folds: dict[str, Predicted], folder: Path) -> Calibrated:
    """Constants fitted to all cases, with bands from the folds."""
    questions = (Training if lens_of(cases[0]) == "training" else Serving)(cases)
    files = sorted({case.file for case in cases})
    ranges = {
        name: (min(getattr(case, name) for case in cases), max(getattr(case, name) for case in cases))
        for name in ("batch", "prompt", "answer", "devices")
    }
    return Calibrated(
        fitted(questions, balance(cases)),
        band_table(folds),
        {
            "device": frozenset(case.card.name for case in cases),
            "engine": frozenset(case.engine for case in cases),
            "model": frozenset(case.model for case in cases),
        },
        ranges,
        f"{len(cases)} rows of {', '.join(files)}",
        datetime.now(UTC).date().isoformat(),
    )


if __name__ == "__main__":
    main()
