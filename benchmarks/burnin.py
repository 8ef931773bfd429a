"""A real burn-in of ten minutes on two shared processors: its verdict, rates by workload, and what repeated bit by bit.

`python -m benchmarks.burnin --save` writes docs/results/burn-in.md from docs/results/burn-in.zip; `--from FOLDER` packs
another burn-in there first.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks.columns import put
from benchmarks.published import pack_of
from twinlens.acceptance.driving.journal import read_lines
from twinlens.acceptance.window import Window
from twinlens.api.measuring.burnin import BurninResult, shown
from twinlens.pack.unpacked import unpacked
from twinlens.record.store import find_runs

RESULTS = Path(__file__).parents[1] / "docs" / "results"
PACK, PLACE = RESULTS / "burn-in.zip", RESULTS / "burn-in.md"
_HEAD = """# A burn-in of {minutes:.0f} minutes

Does a burn-in run whole, and does what it computes repeat bit by bit on a machine that others use too?

`twinlens burnin {asked}` on {machine}, {begun}. {starts}

"""


def page(found: BurninResult, folder: Path) -> str:
    """The page of a burn-in."""
    asked, machine = found.head.asked, found.head.machine
    head = _HEAD.format(
        minutes=asked.for_s / 60,
        asked=f"{' '.join(f'{name}.toml' for name in asked.workloads)} --for {asked.for_s / 60:g}m --turn "
        f"{machine['turn_s']:g}s --window {asked.window_s:g}s --rest {asked.rest_s:g}s",
        machine=f"{machine.get('host.cpu.model')}, {machine.get('host.cpu.cores')} cores",
        begun=found.head.begun_utc,
        starts=" ".join(_starts(found, folder)),
    )
    rates = ["## Rates", "", "| workload | turns | windows | median per s | largest / smallest | spread |",
             "|---|--:|--:|--:|--:|--:|", *_rates(found.windows)]  # fmt: skip
    checks = ["## What was compared", "", "| what | times | different |", "|---|--:|--:|", *_checks(found.windows)]
    verdict = ["## Verdict", "", "```text", *repr(found).splitlines(), "```"]
    return head + "\n".join([*verdict, "", *rates, "", *checks, ""])


def _starts(found: BurninResult, folder: Path) -> Iterator[str]:
    tested_s = sum(each.seconds for each in found.windows)
    turns = len({each.turn for each in found.windows})
    last = max(each.begin_s + each.seconds for each in found.windows)
    rests = [each for each in read_lines(folder / "journal.jsonl") if each["what"] == "rest"]
    rested_s = sum(each["seconds"] for each in rests)
    yield (f"{tested_s:.0f} s were tested in {turns} turns and {len(found.windows)} windows; {rested_s:.0f} s of rests "
           f"and {last - tested_s - rested_s:.0f} s of starts and checks came on top.")  # fmt: skip
    resumes = sum(each["what"] == "resumed" for each in read_lines(folder / "journal.jsonl"))
    others = [_others(run.telemetry) for run in find_runs(folder)]
    known = [each for each in others if each is not None]
    if known:
        share = f"{min(known):.0%} to {max(known):.0%}"
        yield f"Other programs used {share} of the processors, by turn: rates and retention are of what was left over."
    yield f"It was resumed {resumes} times." if resumes else "It was not interrupted."


def _others(telemetry: pa.Table) -> float | None:
    shares = telemetry.column("foreign_cpu").drop_null().to_numpy()
    return float(shares.mean()) if shares.size else None


def _rates(windows: Sequence[Window]) -> Iterator[str]:
    for name in dict.fromkeys(each.workload for each in windows):
        mine = [each for each in windows if each.workload == name and each.rate_per_s]
        rates = np.array([each.rate_per_s for each in mine], dtype=float)
        turns = len({each.turn for each in mine})
        yield (f"| {name} | {turns} | {len(mine)} | {np.median(rates):.3g} | {rates.max() / rates.min():.2f} "
               f"| {rates.std(ddof=1) / rates.mean():.1%} |")  # fmt: skip


def _checks(windows: Sequence[Window]) -> Iterator[str]:
    told: dict[str, list[str]] = defaultdict(list)
    for each in windows:
        for name, digest in each.checks.items():
            told[f"{each.workload}: {name}"].append(digest)
        for device in each.devices:
            for name, digest in device.checks.items():
                told[f"{device.device}: {name}"].append(digest)
    for name, digests in told.items():
        yield f"| {name} | {len(digests)} | {len({*digests}) - 1} |"


def main() -> None:
    """Print the page, or write it."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.burnin", description=__doc__)
    parser.add_argument("--save", action="store_true", help=f"write {PLACE.name}")
    parser.add_argument("--from", dest="folder", type=Path, help="pack this burn-in first")
    options = parser.parse_args()
    if options.folder is not None:
        pack_of(options.folder, PACK)
    with unpacked(PACK) as place:
        (head,) = place.glob("runs/*/burnin.json")
        text = page(shown(head.parent), head.parent)
    put(text, PLACE, save=options.save)


if __name__ == "__main__":
    main()
