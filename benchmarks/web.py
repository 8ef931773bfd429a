"""What the pages of `twinlens browse` cost: start, first pages of many runs, a run's page, rows of a million, memory.

`python -m benchmarks.web` makes the folders, asks a server in a process of its own, and prints
docs/results/web-speed.md (`--save` writes it). CPU time is that of the whole server, with the thread behind its pages.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from statistics import median
from urllib.request import Request, urlopen

import psutil

from benchmarks.columns import put
from benchmarks.finding import taken_on, watched
from benchmarks.published import FOLDER
from benchmarks.startup import as_installed, compile_once, recorded
from twinlens.measurement.summary_file import store_summary
from twinlens.record.store import read_run

PLACE = FOLDER / "web-speed.md"
COUNTS = (1_000, 10_000)
_USERS = ("4", "6", "8", "12", "16", "24", "32", "48", "64")
_PROMPTS = ("256", "384", "512", "768", "1K", "1536", "2K", "3K", "4K")
SLIDERS = (
    ("users of `plan fit`", "plan/fit?model=70B&device=H100&context=8K&users=", _USERS),
    ("prompt of `plan capacity`", "plan/capacity?model=8B&device=H100&rate=4&prompt=", _PROMPTS),
    ("users of `plan choose`", "plan/choose?model=70B&context=8K&users=", _USERS),
)
"""What is moved, the address without its word, and words that follow each other, each asked once."""
ROWS = 1_000_000
_PER_STUDY = 10
_ASKED, _STARTS = 9, 5
_HEAD = """# What the pages of `twinlens browse` cost

Made by `python -m benchmarks.web --save`: made-up run folders of the fake executor, a server in a process of its own
on {machine}, {day}. CPU time is that of the whole server process, with the thread that reads behind the pages; medians
of {asked} requests, {starts} starts. Other programs used {others} of the processors meanwhile.

| what | value | goal | |
|---|--:|--:|---|
"""
_BOUNDS = """
What bounds them:

- *Start*: three quarters are the HTTP library, whose server comes with its client. Its two contexts for TLS, a tenth of
  a second, are made without roots here; whoever asks over https from a page brings one with them.
- *First page*: one look at the folder of each run, since only a folder with a `run.json` is a run.
- *A slider* asks the whole question anew. `capacity` searches the largest load that keeps to the target, for the figure
  and for both ends of its band, some forty equilibria; `choose` predicts and explains each device with each precision
  and layout.
- *Memory after a report*: Python with the HTTP library holds 44 MB, numpy with Arrow 48, the charts' library 22, scipy
  18, pydantic 6, our own modules and what the page keeps the rest. Each is used by the report; a process of its own for
  it would hold the same, and take two seconds for each run.
"""


@dataclass(frozen=True, slots=True)
class Line:
    """A row of the page. `value`, `goal`: in `unit`; None: none was set."""

    what: str
    value: float
    unit: str
    goal: float | None = None


class Server:
    """`twinlens browse` in a process of its own."""

    def __init__(self, folder: Path) -> None:
        words = [sys.executable, "-m", "twinlens.cli.main", "browse", str(folder), "--out", str(folder), "--port", "0"]
        self._process = subprocess.Popen(words, stderr=subprocess.PIPE, text=True, env=as_installed())
        assert self._process.stderr is not None
        self.url = re.findall(r"http://\S+/", self._process.stderr.readline())[0]
        self._seen = psutil.Process(self._process.pid)
        self.started_s = self.cpu_s()

    def cpu_s(self) -> float:
        used = self._seen.cpu_times()
        return float(used.user + used.system)

    def rss_mb(self) -> float:
        return float(self._seen.memory_info().rss) / 1e6

    def asked(self, path: str) -> tuple[float, str]:
        """CPU seconds that an answer took, and the answer."""
        before = self.cpu_s()
        with urlopen(Request(self.url + path), timeout=300) as answer:
            text = answer.read().decode()
        return self.cpu_s() - before, text

    def median_s(self, path: str) -> float:
        return median(self.asked(path)[0] for _ in range(_ASKED))

    def settle(self) -> None:
        """Until the thread behind the pages has read everything."""
        before = -1.0
        while self.cpu_s() - before > 0.05:
            before = self.cpu_s()
            time.sleep(3)

    def end(self) -> None:
        self._process.terminate()
        self._process.communicate()


@contextmanager
def serving(folder: Path) -> Iterator[Server]:
    server = Server(folder)
    try:
        yield server
    finally:
        server.end()


def fill(folder: Path, good: Path, count: int) -> None:
    """So many run folders in studies of ten, each with a record of its own, and rows and summary under many names."""
    record, begin = json.loads((good / "run.json").read_text()), datetime(2026, 1, 1)
    for number in range(count):
        stamp = (begin + timedelta(minutes=7 * number)).strftime("%Y-%m-%dT%H%M%SZ")
        if number % _PER_STUDY == 0:
            study = folder / f"{stamp}_study_{number:05x}"
            study.mkdir(parents=True)
            (study / "study.json").write_text("{}")
        run = study / f"{stamp}_run_{number:05x}"
        run.mkdir()
        asked = record["asked"] | {"workload": record["asked"]["workload"] | {"model": f"model-{number % 7}"}}
        (run / "run.json").write_text(json.dumps(record | {"id": run.name, "started_utc": stamp, "asked": asked}))
        for name in ("summary.json", "steps.arrows", "steps.arrows.crc32"):
            os.link(good / name, run / name)


def measured(count: int, good: Path, folder: Path) -> Iterator[Line]:
    """Pages of so many runs. The newest run is the one that everything was copied from."""
    fill(folder, good, count)
    many = f"{count:,} runs"
    firsts = []
    for _ in range(_STARTS):
        with serving(folder) as server:
            firsts.append(server.asked("runs")[0])
    yield Line(f"first page of {many}, just started", 1e3 * median(firsts), "ms", 300 if count > 1000 else 200)
    with serving(folder) as server:
        server.asked("runs")
        server.settle()
        goal = 200 if count == 1000 else 300
        yield Line(f"the same, all read: {many}", 1e3 * server.median_s("runs"), "ms", goal)
        yield Line(f"one facet and a search of {many}", 1e3 * server.median_s("runs?model=model-3&q=fake"), "ms", goal)
        yield Line(f"home of {many}", 1e3 * server.median_s(""), "ms", goal)
        yield Line(f"memory with {many} listed", server.rss_mb(), "MB", 150)
        run = json.loads(server.asked("runs?as=json")[1])["runs"]["training"]["rows"][0]["id"]
        yield Line("a run's page, the first of a server", 1e3 * server.asked(f"runs/{run}")[0], "ms")
        yield Line("the same page again", 1e3 * server.median_s(f"runs/{run}"), "ms", 200)
        yield Line(f"memory after a report, {many} listed", server.rss_mb(), "MB", 150)
        server.asked("static/vega.js")
        yield Line("the same once its charts were drawn", server.rss_mb(), "MB")


def everything(folder: Path) -> Iterator[Line]:
    """Every line of the page."""
    (folder / "one").mkdir()
    good = recorded(folder / "one", "training", 300, 48)
    store_summary(read_run(good))
    plain = [_cpu_of("-c", "pass") for _ in range(_STARTS)]
    starts = []
    for _ in range(_STARTS):
        with serving(folder / "one") as server:
            starts.append(server.started_s)
    yield Line("start until it answers, beyond Python's own", median(starts) - median(plain), "s", 0.5)
    yield Line("of it, the HTTP library alone", median(_cpu_of("-c", "import aiohttp.web") for _ in range(_STARTS)) -
               median(plain), "s")  # fmt: skip
    with serving(folder / "one") as server:
        yield Line("first load of the explorer, gzipped", _loaded_kb(server, "runs"), "kB", 500)
        yield Line(
            "first load of a run's page with its charts, gzipped", _loaded_kb(server, f"runs/{good.name}"), "kB", 500
        )
    with serving(folder / "one") as server:
        yield from _sliders(server)
    for count in COUNTS:
        yield from measured(count, good, folder / str(count))
    (folder / "long").mkdir()
    long = recorded(folder / "long", "training", ROWS, 48)
    with serving(folder / "long") as server:
        server.asked(f"runs/{long.name}/rows")  # Arrow is loaded once
        for where, row in (("first", 0), ("last", ROWS - 50)):
            yield Line(
                f"{where} page of {ROWS:,} rows", 1e3 * server.median_s(f"runs/{long.name}/rows?from={row}"), "ms", 200
            )


def _sliders(server: Server) -> Iterator[Line]:
    """A slider of each plan as the page's script asks it, once the site has loaded ahead."""
    server.asked("runs")
    server.settle()
    for what, path, words in SLIDERS:
        server.asked(f"{path}20&as=part&charts=no")  # what this verb alone loads
        took_s = median(server.asked(f"{path}{word}&as=part&charts=no")[0] for word in words)
        yield Line(f"a slider: {what}", 1e3 * took_s, "ms", 100)


def _loaded_kb(server: Server, path: str) -> float:
    """The page and all that it loads, each packed as the server packs files."""
    text = server.asked(path)[1]
    names = set(re.findall(r"(?:src|href)=\"/(static/[^\"]+)\"", text))
    names |= {"static/vega.js"} if "data-chart" in text else set()  # which charts.js imports
    return sum(len(gzip.compress(each.encode())) for each in (text, *(server.asked(name)[1] for name in names))) / 1e3


def _cpu_of(*words: str) -> float:
    before = os.times()
    subprocess.run([sys.executable, *words], check=True, env=as_installed())
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


def page(lines: list[Line], others: str) -> str:
    """The page of the documentation."""
    machine = taken_on().get("host.cpu.model", "a machine that was not recorded")
    head = _HEAD.format(machine=machine, day=time.strftime("%Y-%m-%d"), asked=_ASKED, starts=_STARTS, others=others)
    return head + "".join(f"{_row(each)}\n" for each in lines) + _BOUNDS


def _row(line: Line) -> str:
    shown = f"{line.value:.2f}" if line.unit == "s" else f"{line.value:.0f}"
    goal, verdict = "", ""
    if line.goal is not None:
        goal, verdict = f"{line.goal:g} {line.unit}", "met" if line.value <= line.goal else "missed"
    return f"| {line.what} | {shown} {line.unit} | {goal} | {verdict} |"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.web", description=__doc__)
    parser.add_argument("--save", action="store_true", help="write docs/results/web-speed.md")
    asked = parser.parse_args()
    compile_once()
    with watched() as seen, tempfile.TemporaryDirectory() as folder:
        lines = []
        for line in everything(Path(folder)):
            print(_row(line), file=sys.stderr)
            lines.append(line)
    put(page(lines, "an unknown share" if seen.foreign is None else f"{seen.foreign:.0%}"), PLACE, save=asked.save)


if __name__ == "__main__":
    main()
