"""Jobs: commands that were started from a page, each with a small folder that says how it stands.

Nothing of a job lives in the process of the site: whoever browses the same folder later finds it again.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from twinlens.errors import BadInput
from twinlens.system.document import read_json, read_text, refuse_irregular
from twinlens.system.processes import is_gone, is_here, process_of

TAKEN = "TL272"
FOLDER = ".jobs"
"""Below the folder of runs; no run is looked for in it by its name."""
SERVE, WHERE = "serve", "running.json"
"""The word of a job that keeps a server up, and the file that says where it is."""
State = Literal["running", "done", "gate failed", "refused", "failed", "stopped", "gone"]
_BY_EXIT: Mapping[int, State] = {0: "done", 1: "gate failed", 2: "refused", 130: "stopped"}
_KEEPER = Path(__file__).with_name("keeper.py")
_TAIL_BYTES = 16_384
_LAST_S = 1e10  # the year 2286
_MOST_RECORD_BYTES = 200_000


@dataclass(frozen=True, slots=True)
class Job:
    """`words`: of the command line, after `twinlens`. `process`: of its keeper, which leads its group. `child`: the
    process number of the command, None before it has begun; `code`: its exit code, None until it is over. `begun_s`,
    `ended_s`: seconds since 1970."""

    folder: Path
    words: tuple[str, ...]
    begun_s: float
    process: Mapping[str, Any]
    child: int | None
    code: int | None
    ended_s: float | None

    @property
    def id(self) -> str:
        return self.folder.name

    @property
    def verb(self) -> str:
        return self.words[0]

    @property
    def state(self) -> State:
        """How it stands; "gone": its processes ended without a word, by a kill or a loss of power."""
        if self.code is not None:
            return _BY_EXIT.get(self.code, "failed")
        return "gone" if is_gone(self.process) else "running"

    @property
    def lasted_s(self) -> float | None:
        """Until now, or until it ended; None where that is not known."""
        if self.state == "running":
            return max(0.0, time.time() - self.begun_s)
        return None if self.ended_s is None else max(0.0, self.ended_s - self.begun_s)

    @property
    def started(self) -> str:
        """When, in UTC, for people."""
        return datetime.fromtimestamp(self.begun_s, UTC).strftime("%Y-%m-%d %H:%M")

    def said(self) -> list[str]:
        """The last lines of its progress and of what it had to say."""
        return _tail(self.folder / "err.txt")

    def printed(self) -> list[str]:
        """The last lines of its answer."""
        return _tail(self.folder / "out.txt")


@contextlib.contextmanager
def starting(out: Path) -> Iterator[None]:
    """Meanwhile no other site of the same folder starts a job: two that look at once would both find none running."""
    from twinlens.measurement.study_folder import locked  # heavy, and home looks at jobs

    (out / FOLDER).mkdir(parents=True, exist_ok=True, mode=0o700)
    with locked(out / FOLDER, wait=True):
        yield


def new_folder(out: Path) -> Path:
    """The folder of a job that is about to start."""
    from twinlens.record.store import now_utc

    folder = out / FOLDER / f"{now_utc()}_{secrets.token_hex(3)}"
    folder.mkdir(parents=True, mode=0o700)
    return folder


def start(folder: Path, words: Sequence[str], environment: Mapping[str, str], module: str = "twinlens") -> Job:
    """Start `python -m MODULE WORDS` in a session of its own, held by a keeper."""
    from twinlens.record.store import now_utc, write_json

    command = [sys.executable, "-P", "-m", module, *words]
    keeper = subprocess.Popen(
        [sys.executable, "-I", "-S", str(_KEEPER), str(folder), *command],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        env=dict(environment), start_new_session=True,
    )  # fmt: skip
    threading.Thread(target=keeper.wait, daemon=True).start()  # so that it does not stay a zombie while we live
    record = {"words": list(words), "module": module, "started_utc": now_utc(), "begun_s": time.time(),
              "process": process_of(keeper.pid)}  # fmt: skip
    write_json(folder / "job.json", record)
    return read_job(folder)


def read_job(folder: Path) -> Job:
    """Raises BadInput for a folder that holds none."""
    try:
        found = read_json(folder / "job.json", _MOST_RECORD_BYTES)
        words, process = tuple(map(str, found["words"])), found["process"]
        if not words or not isinstance(process, dict) or not isinstance(process["pid"], int):
            raise ValueError("it names no command")
        begun_s = float(found["begun_s"])
        if not 0 <= begun_s < _LAST_S:
            raise ValueError("it began at no time")
    except (OSError, KeyError, TypeError, ValueError) as error:
        sentence = f"the job {folder.name} cannot be read ({str(error)[:80]}); remove its folder"
        raise BadInput(sentence, code=TAKEN) from None
    ended = folder / "exit"
    with contextlib.suppress(OSError):
        return Job(folder, words, begun_s, process, _number(folder / "child"), _number(ended),
                   ended.stat().st_mtime)  # fmt: skip
    return Job(folder, words, begun_s, process, _number(folder / "child"), None, None)


def jobs(out: Path) -> list[Job]:
    """Those of a folder of runs that can be read, the newest first."""
    found = []
    with contextlib.suppress(OSError):
        for folder in sorted((out / FOLDER).iterdir(), reverse=True):
            with contextlib.suppress(BadInput):
                found.append(read_job(folder))
    return found


def find_job(out: Path, name: str) -> Job | None:
    """The job of this name: found by its listing, so that no name of an address becomes a path."""
    with contextlib.suppress(OSError, BadInput):
        return next((read_job(folder) for folder in (out / FOLDER).iterdir() if folder.name == name), None)
    return None


def stop(job: Job) -> None:
    """Interrupt the command as Ctrl-C does; what it has measured is kept. A second time it is told to end."""
    again = job.folder / "stopped"
    number = signal.SIGTERM if again.exists() else signal.SIGINT
    again.touch()
    if job.code is None and is_here(dict(job.process)):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(int(job.process["pid"]), number)


def serves(job: Job) -> dict[str, str]:
    """Where the server of a job is and its model, once it is up; "" before. `is_random`: "yes" of random weights."""
    try:
        found = read_json(job.folder / WHERE, _MOST_RECORD_BYTES)
        is_random = "yes" if found.get("is_random") is True else ""
        return {"url": str(found["url"]), "model": str(found["model"]), "is_random": is_random}
    except (OSError, ValueError, KeyError, TypeError):
        return {"url": "", "model": "", "is_random": ""}


def is_stopping(job: Job) -> bool:
    """Whether it was told to stop and has not ended yet."""
    return job.state == "running" and (job.folder / "stopped").exists()


def _number(path: Path) -> int | None:
    try:
        return int(read_text(path, 20))
    except (OSError, ValueError):
        return None


def _tail(path: Path) -> list[str]:
    """The last lines of a text file; none where there is none."""
    try:
        refuse_irregular(path)
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - _TAIL_BYTES))
            text = file.read(_TAIL_BYTES).decode("utf-8", "replace")
    except OSError:
        return []
    lines = text.splitlines()
    return lines[1:] if size > _TAIL_BYTES else lines
