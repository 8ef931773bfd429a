"""Run folders, spoilt: each is read and summarised, or is refused with one sentence; nothing crashes or is believed."""

from __future__ import annotations

import random
import shutil
import tempfile
from functools import cache
from pathlib import Path

from frame import mutated, one_sentence

from twinlens.errors import BadInput
from twinlens.measurement.session import run_here
from twinlens.record.checksum import marks_path
from twinlens.record.store import create_run, read_run
from twinlens.spec.load import parse
from twinlens.stats.run_summary import summarise

_WORDS = [b"\x00" * 8, b"\xff" * 8, b"null", b"-1", b"{", b"[]", b'"', b"1e999", b"NaN", b"9" * 30, b"running", b"\n"]
_PROTOCOL = {"duration_s": 4.0, "min_rows": 40, "steady_s": 0.0, "isolate": False, "ceilings": False, "repeats": 1}
_SPECS = (
    {"workload": {"kind": "training", "model": "tiny", "global_batch": 2, "seq_len": 16}},
    {"workload": {"kind": "inference", "model": "tiny", "input_tokens": {"kind": "fixed", "value": 8},
                  "output_tokens": {"kind": "fixed", "value": 4}}},
)  # fmt: skip


@cache
def _whole() -> tuple[Path, ...]:
    """A finished run of each lens."""
    parent = Path(tempfile.mkdtemp(prefix="twinlens-fuzz-"))
    folders = []
    for data in _SPECS:
        spec = parse({"executor": {"kind": "fake"}, "protocol": _PROTOCOL, **data}).runs()[0]
        folders.append(create_run(parent, spec))
        run_here(folders[-1], spec, lambda phrase, share, rows: None)
    return tuple(folders)


def check(source: random.Random) -> None:
    """One run with one of its files spoilt; half of them as older versions wrote them, without checksums."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "run"
        whole = source.choice(_whole())
        shutil.copytree(whole, folder)
        old = source.random() < 0.5
        if old:
            for rows in folder.glob("*.arrows"):
                marks_path(rows).unlink(missing_ok=True)
        file = source.choice(sorted(path for path in folder.iterdir() if path.suffix in (".arrows", ".json")))
        before = file.read_bytes()
        after = mutated(source, before, _WORDS)
        file.write_bytes(after)
        try:
            run = read_run(folder)
            rows = run.table.num_rows
            summarise(run)
        except BadInput as refused:
            one_sentence(refused)
            return
        if file.suffix == ".arrows" and not old and run.is_finished:
            taken = file.name in ("steps.arrows", "requests.arrows")
            assert not taken or after[: len(before)] == before, "spoilt rows were believed"
            assert rows == read_run(whole).table.num_rows
