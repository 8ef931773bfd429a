"""One command for the first day with an NVIDIA GPU: `python -m benchmarks.gpu_check [--out DIR] [--only NAME,…]`.

NEVER SEEN ON A DEVICE. The CUDA paths of Twinlens were written against the sources of torch, torchao and NVML and
tested on processors, with torch's own event types and stand-ins for CUDA's calls. Until this has run, nobody knows
whether they hold on a GPU: the profiler's device events, tf32 by arithmetic, captured graphs, fp8 layers and training,
sustained ceilings with clocks, the allocator's peak, prefetching data, device numbers above 0, energy counters, NVML's
own counters of tensor pipes and DRAM (GPM), out of memory.

It takes at most 25 minutes on one H100 (`--budget-s`), runs each check in a process of its own within a budget of its
own, goes on after a failure, and writes a folder: `result.json`, `summary.md`, each check's raw answer and its log.
Each line says what was expected, what was seen, and whether they fit; the exit code is 1 where something does not.

`--dry-run` needs no GPU: it judges the answers in `gpu_check_answers.json` by the same code. Those were made by hand
from sources and datasheets; no device gave them. Replace them by the first real ones.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.gpu_judge import JUDGES, Line

NEVER_SEEN = (
    "Never seen on a device: device events of the profiler, tf32 by arithmetic, captured graphs, fp8, sustained "
    "ceilings, the allocator's peak, batches drawn ahead, devices above cuda:0, energy counters, "
    "NVML's GPM, out of memory."
)
ANSWERS = Path(__file__).parent / "gpu_check_answers.json"
# Seconds each may take, the most telling first: when the time is over, the rest is "not seen".
BUDGET_S = {
    "machine": 30,
    "profiler": 30,
    "gpm": 20,
    "tf32": 60,
    "sustained": 45,
    "probe": 120,
    "memory": 40,
    "training": 160,
    "decode": 150,
    "fp8-inference": 240,
    "fp8-training": 220,
    "int8-weight": 35,
    "second-gpu": 50,
    "vision": 60,
    "tests": 240,
}
TOTAL_S = 1500.0


@dataclass(frozen=True, slots=True)
class Result:
    """What one check came to: its lines, how long it took, and why it has none."""

    name: str
    lines: tuple[Line, ...]
    took_s: float


Ask = Callable[[str, Path, float], dict[str, Any]]
"""(name, folder, seconds it may take) to the check's answer; `{"error": …}` where there is none."""


def check(names: Sequence[str], ask: Ask, out: Path, total_s: float = TOTAL_S) -> list[Result]:
    """Ask and judge each check in turn while the time lasts, and write the folder after each."""
    out.mkdir(parents=True, exist_ok=True)
    begin_s = time.monotonic()
    results: list[Result] = []
    for name in names:
        at_s = time.monotonic()
        left_s = total_s - (at_s - begin_s)
        answer = {"error": "no time was left"} if left_s < 5 else _asked(ask, name, out, min(BUDGET_S[name], left_s))
        (out / f"{name}.json").write_text(json.dumps(answer, indent=1, sort_keys=True) + "\n")
        results.append(Result(name, judged(name, answer), time.monotonic() - at_s))
        _write(results, out)
        for line in results[-1].lines:
            print(f"{name:14} {line.verdict:16} {line.expected} — seen: {line.seen}", flush=True)
    return results


def judged(name: str, answer: dict[str, Any]) -> tuple[Line, ...]:
    """The lines of one check; one "not seen" where it gave no answer, or one that cannot be read."""
    if "error" in answer:
        return (Line("an answer", str(answer["error"])[:400], "not seen"),)
    try:
        return tuple(JUDGES[name](answer))
    except (KeyError, TypeError, ValueError, IndexError) as error:
        return (Line("an answer that can be judged", f"{type(error).__name__}: {error}", "not seen"),)


def markdown(results: Sequence[Result], told: str) -> str:
    """The summary for people."""
    lines = ["# GPU check", "", told, "", NEVER_SEEN, "", "| check | expected | seen | verdict |", "|---|---|---|---|"]
    for result in results:
        for line in result.lines:
            cells = (result.name, line.expected, line.seen, line.verdict)
            lines.append("| " + " | ".join(cell.replace("|", "/").replace("\n", " ") for cell in cells) + " |")
    counts = {verdict: sum(line.verdict == verdict for r in results for line in r.lines) for verdict in _VERDICTS}
    return "\n".join([*lines, "", ", ".join(f"{count} {verdict}" for verdict, count in counts.items()) + ".", ""])


_VERDICTS = ("as expected", "not as expected", "not seen")


def on_this_machine(name: str, out: Path, limit_s: float) -> dict[str, Any]:
    """The answer of a fresh process: `python -m benchmarks.gpu_asks NAME FOLDER`, whose last line is JSON."""
    folder = (out / name).resolve()
    folder.mkdir(exist_ok=True)
    with (out / f"{name}.log").open("w") as log:
        command = [sys.executable, "-m", "benchmarks.gpu_asks", name, str(folder)]
        where = Path(__file__).parents[1]
        try:
            done = subprocess.run(command, stdout=subprocess.PIPE, stderr=log, text=True, timeout=limit_s, cwd=where)
        except subprocess.TimeoutExpired:
            return {"error": f"it took more than {limit_s:.0f} s"}
        log.write(done.stdout)
    try:
        answer = json.loads(done.stdout.strip().splitlines()[-1])
    except (IndexError, ValueError):
        return {"error": f"it ended with code {done.returncode} and no answer; see {name}.log"}
    return answer if isinstance(answer, dict) else {"error": "its answer is no mapping"}


def recorded(name: str, out: Path, limit_s: float) -> dict[str, Any]:
    """The answer that stands in the file beside this one."""
    answers: dict[str, dict[str, Any]] = json.loads(ANSWERS.read_text())
    return answers.get(name, {"error": "none recorded"})


def main(words: Sequence[str] | None = None) -> int:
    """Returns 0, or 1 where something was not as expected, or 2 for a name that does not exist."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu_check", description=NEVER_SEEN)
    parser.add_argument("--out", type=Path, default=Path("results"), help="where the result folder is made")
    parser.add_argument("--only", default="", help=f"of {', '.join(BUDGET_S)}")
    parser.add_argument("--budget-s", type=float, default=TOTAL_S, help="seconds in all")
    parser.add_argument("--dry-run", action="store_true", help="judge recorded answers, on any machine")
    asked = parser.parse_args(words)
    names = [name for name in asked.only.split(",") if name] or list(BUDGET_S)
    if unknown := [name for name in names if name not in BUDGET_S]:
        print(f"no check {unknown[0]!r}; there are {', '.join(BUDGET_S)}", file=sys.stderr)
        return 2
    print(NEVER_SEEN, flush=True)
    stamp = datetime.now(UTC).strftime("%Y-%m-%dT%H%M%SZ")
    out = asked.out / f"gpu-check-{stamp}{'-dry' if asked.dry_run else ''}"
    results = check(names, recorded if asked.dry_run else on_this_machine, out, asked.budget_s)
    print(f"\nwritten: {out}")
    return int(any(line.verdict == "not as expected" for result in results for line in result.lines))


def _asked(ask: Ask, name: str, out: Path, limit_s: float) -> dict[str, Any]:
    try:
        return ask(name, out, limit_s)
    except Exception as error:  # whatever one check does, the others are still worth having
        return {"error": f"{type(error).__name__}: {error}"}


def _write(results: Sequence[Result], out: Path) -> None:
    told = "Answers recorded by hand, no device was asked." if out.name.endswith("-dry") else f"Taken {out.name[10:]}."
    (out / "summary.md").write_text(markdown(results, told))
    data = {"never_seen_before": NEVER_SEEN, "results": [asdict(result) for result in results]}
    (out / "result.json").write_text(json.dumps(data, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
