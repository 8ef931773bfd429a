"""How long a site of packs takes: published packs under other names, so that each is a pack of its own to check."""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import tempfile
import time
import zipfile
from pathlib import Path

import twinlens as tl
from benchmarks.finding import Finding, watched, with_neighbours
from benchmarks.published import PACKS
from twinlens.pack.archive import write_archive
from twinlens.pack.check import ABOUT
from twinlens.pack.sums import SUMS, read_sums, sums_text
from twinlens.record.estimate import Estimate

TARGET_S = 60.0


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks packs_site", description=__doc__)
    parser.add_argument("--packs", type=int, default=500)
    parser.add_argument("--of", type=int, default=len(PACKS), help="published packs that they are copies of, at most")
    return parser


def run(options: argparse.Namespace) -> tuple[list[Finding], list[str]]:
    """CPU time of the whole, worker processes included."""
    sources = sorted(PACKS, key=lambda pack: pack.stat().st_size)[: options.of]
    with watched() as seen, tempfile.TemporaryDirectory() as folder:
        packs = Path(folder) / "packs"
        packs.mkdir()
        for number in range(options.packs):
            renamed(sources[number % len(sources)], packs / f"pack-{number:04}.zip", f"Person {number}")
        begin, began = sum(os.times()[:4]), time.monotonic()
        made = tl.site(packs, to=Path(folder) / "site")
        cpu_s, wall_s = sum(os.times()[:4]) - begin, time.monotonic() - began
        size = sum(file.stat().st_size for file in (Path(folder) / "site").rglob("*") if file.is_file())
    what = f"a site of {len(made.shown)} packs, of {len(sources)} sets of runs"
    note = f"{made.pages:,} pages, {size / 1e6:,.0f} MB with the packs, {wall_s:.0f} s of wall time"
    found = Finding(f"{what}: CPU time", Estimate(cpu_s, "s", "one build", "measured"), TARGET_S, note=note)
    return with_neighbours([found], seen), ["Packs of the same runs are read once: other runs cost what `report` does."]


def renamed(pack: Path, to: Path, name: str) -> Path:
    """The pack as somebody else would have signed it: another name, another checksum."""
    with zipfile.ZipFile(pack) as file:
        members = {each: file.read(each) for each in file.namelist()}
    about = json.loads(members[ABOUT])
    about["measured_by"] = about["measured_by"] | {"name": name}
    told = json.dumps(about).encode()
    sums = read_sums(members[SUMS].decode()) | {ABOUT: hashlib.sha256(told).hexdigest()}
    write_archive(to, {**members, ABOUT: told, SUMS: sums_text(sums).encode()})
    return to
