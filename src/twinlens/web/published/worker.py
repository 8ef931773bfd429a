"""Reading of packs by processes of their own: one that a pack brings down, or keeps too long, costs that pack alone."""

from __future__ import annotations

import gc
import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from twinlens.api.judging.recomputed import unreadable
from twinlens.errors import BadInput
from twinlens.record.codec import encode
from twinlens.system.document import json_of, read_json
from twinlens.web.published.one import read_pack, written

MOST_S = 600.0
"""What reading one pack may take."""
_FEW, _EACH = 4, 8
"""Packs that this process reads itself, and those that another one is started for: that takes seconds."""
_ENDED = "reading it ended the process that read it, or took more than 10 minutes"


def read_all(packs: Mapping[str, Path], place: Path) -> dict[str, dict[str, Any]]:
    """What the runs of packs say (`read_pack`), by key. `place`: a folder for it, with a folder of records by key."""
    if len(packs) <= _FEW:
        return {key: read_pack(path, place / key) for key, path in packs.items()}
    waiting: queue.SimpleQueue[str] = queue.SimpleQueue()
    for key in packs:
        waiting.put(key)
    count = min(os.cpu_count() or 1, -(-len(packs) // _EACH))
    threads = [threading.Thread(target=_drive, args=(waiting, packs, place), daemon=True) for _ in range(count)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    return {key: _result(place, key) for key in packs}


def _result(place: Path, key: str) -> dict[str, Any]:
    try:
        told: dict[str, Any] = read_json(place / f"{key}.json")
    except (OSError, ValueError):
        return {"findings": [encode(unreadable(BadInput(_ENDED)))]}
    return told


def _drive(waiting: queue.SimpleQueue[str], packs: Mapping[str, Path], place: Path) -> None:
    """Hand packs to one process, and start another after one that ended."""
    process = None
    try:
        while True:
            key = waiting.get_nowait()
            process = process if process is not None and process.poll() is None else _started()
            limit = threading.Timer(MOST_S, process.kill)
            limit.start()
            try:
                _ask(process, [key, str(packs[key]), str(place)])
            finally:
                limit.cancel()
    except queue.Empty:
        return
    finally:
        if process is not None:
            process.kill()
            process.communicate()


def _started() -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "twinlens.web.published.worker"]
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )


def _ask(process: subprocess.Popen[str], task: list[str]) -> None:
    """One pack: a line there and a line back; a process that has ended gives none."""
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(json.dumps(task) + "\n")
        process.stdin.flush()
        said = process.stdout.readline()
    except OSError:
        said = ""
    if not said:
        process.kill()
        process.wait()


def main() -> None:
    """Read packs as they are named on stdin, a line each, until it ends."""
    gc.freeze()  # what is loaded stays, and charts are many small tables: looking through them took a tenth of the time
    gc.set_threshold(200_000, 50, 100)
    for line in sys.stdin:
        key, path, place = json_of(line)
        written(read_pack(Path(path), Path(place) / key), Path(place) / f"{key}.json")
        print(key, flush=True)


if __name__ == "__main__":
    main()
