"""One command for the first day with an NVIDIA GPU: `python -m benchmarks.gpu_check [--out DIR] [--only NAME,…]`.

NEVER SEEN ON A DEVICE. The CUDA paths of Twinlens were written against the sources of torch, torchao and NVML and
tested on processors, with torch's own event types and stand-ins for CUDA's calls. Until this has run, nobody knows
whether they hold on a GPU: the profiler's device events, tf32 by arithmetic, captured graphs, fp8 layers and training,
sustained ceilings with clocks, the allocator's peak, prefetching data, device numbers above 0, energy counters, NVML's
own counters of tensor pipes and DRAM (GPM), out of memory.

`--tier one` (the default) asks one board, in at most 25 minutes on one H100 (`--budget-s`); `--tier several` asks what
takes two boards or more: exchanges, parallel training, DeepSpeed, a watched loop, replicas; `--tier more` asks one
board what takes other installations: adapters, saves, vLLM, TensorRT. Each check has a process group and a budget of
its own; what it answered before its time was over is kept, judged and printed as it comes. A
folder is written after each: `result.json`, `summary.md`, each check's raw answer and its log. Each line says what was
expected, what was seen, and whether they fit.

The exit code is 0 where all was seen and as expected, 1 where something was not as expected, 2 for a name that does not
exist, and 3 where nothing was wrong and something was not seen. Ctrl-C ends the check that runs and all it started;
the rest is not seen.

`--dry-run` needs no GPU: it judges the answers in `gpu_check_answers.json` by the same code. Those were made by hand
from sources and datasheets; no device gave them. Replace them by the first real ones.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.gpu_judge import JUDGES, Line
from benchmarks.own_group import INTERRUPTED, last_answer

NEVER_SEEN = (
    "Never seen on a device: device events of the profiler, tf32 by arithmetic, captured graphs, fp8, sustained "
    "ceilings, the allocator's peak, batches drawn ahead, devices above cuda:0, energy counters, "
    "NVML's GPM, counters of errors, out of memory, servers on a GPU, NCCL, parallel training, DeepSpeed, replicas, "
    "adapters, saves, vLLM, TensorRT."
)
ANSWERS = Path(__file__).parent / "gpu_check_answers.json"
# Seconds each may take, the most telling first: when the time is over, the rest is "not seen".
TIERS: dict[str, dict[str, float]] = {
    "one": {
        "machine": 25,
        "profiler": 25,
        "gpm": 20,
        "counters": 45,
        "tf32": 40,
        "sustained": 40,
        "probe": 110,
        "memory": 35,
        "training": 150,
        "decode": 140,
        "fp8-inference": 250,
        "fp8-training": 190,
        "int8-weight": 25,
        "vision": 60,
        "server": 90,
        "tests": 250,
    },
    "several": {
        "machine": 25,
        "second-gpu": 60,
        "exchanges": 150,
        "collectives": 150,
        "parallel": 300,
        "deepspeed": 180,
        "watched": 90,
        "replicas": 150,
    },
    "more": {
        "machine": 25,
        "adapters": 240,
        "saves": 150,
        "vllm": 420,
        "tensorrt": 240,
    },
}
BUDGET_S = {name: budget_s for tier in TIERS.values() for name, budget_s in tier.items()}
TOTAL_S = 1500.0
OK, WRONG, NO_SUCH_NAME, NOT_SEEN = range(4)
"""Exit codes."""


@dataclass(frozen=True, slots=True)
class Result:
    """What one check came to: its lines, how long it took, and why it has none."""

    name: str
    lines: tuple[Line, ...]
    took_s: float


Tell = Callable[[dict[str, Any]], None]
Ask = Callable[[str, Path, float, Tell], dict[str, Any]]
"""(name, folder, seconds it may take, who hears what is known so far) to the check's answer: `{"error": …}` where there
is none, "unfinished" with the reason in one that is not whole."""


def check(names: Sequence[str], ask: Ask, out: Path, total_s: float = TOTAL_S) -> list[Result]:
    """Ask and judge each check in turn while the time lasts, and write the folder after each."""
    out.mkdir(parents=True, exist_ok=True)
    begin_s = time.monotonic()
    results: list[Result] = []
    why_not = ""
    for name in names:
        at_s = time.monotonic()
        left_s = total_s - (at_s - begin_s)
        told = _Told(name)
        why_not = why_not or ("no time was left" if left_s < 5 else "")
        answer = {"error": why_not} if why_not else _asked(ask, name, out, min(BUDGET_S[name], left_s), told)
        if answer.get("unfinished") == INTERRUPTED or answer.get("error") == INTERRUPTED:
            why_not = INTERRUPTED
        (out / f"{name}.json").write_text(json.dumps(answer, indent=1, sort_keys=True) + "\n")
        results.append(Result(name, judged(name, answer), time.monotonic() - at_s))
        _write(results, out)
        told.lines(results[-1].lines)
    return results


class _Told:
    """What has been printed of a check: each line once, as soon as it is known."""

    def __init__(self, name: str) -> None:
        self._name, self._said = name, set[Line]()

    def __call__(self, answer: dict[str, Any]) -> None:
        self.lines([line for line in judged(self._name, answer) if line.verdict != "not seen"])

    def lines(self, lines: Sequence[Line]) -> None:
        for line in lines:
            if line not in self._said:
                self._said.add(line)
                print(f"{self._name:14} {line.verdict:16} {line.expected} — seen: {line.seen}", flush=True)


def judged(name: str, answer: dict[str, Any]) -> tuple[Line, ...]:
    """The lines of one check; one "not seen" where it gave no answer, or one that cannot be read."""
    if "error" in answer:
        return (Line("an answer", str(answer["error"])[:400], "not seen"),)
    lines = list[Line]()
    try:
        for line in JUDGES[name](answer):  # those before one that cannot be judged are kept
            lines.append(line)
    except (KeyError, TypeError, ValueError, IndexError) as error:
        if "unfinished" not in answer:
            lines.append(Line("an answer that can be judged", f"{type(error).__name__}: {error}", "not seen"))
    if "unfinished" in answer:
        lines.append(Line("the rest of the answer", str(answer["unfinished"]), "not seen"))
    return tuple(lines)


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


def on_this_machine(name: str, out: Path, limit_s: float, tell: Tell) -> dict[str, Any]:
    """The answer of a fresh process, `python -m benchmarks.gpu_asks NAME FOLDER`, in a process group of its own."""
    folder = (out / name).resolve()
    folder.mkdir(exist_ok=True)
    command = [sys.executable, "-m", "benchmarks.gpu_asks", name, str(folder)]
    return last_answer(command, Path(__file__).parents[1], out / f"{name}.log", limit_s, tell)


def recorded(name: str, out: Path, limit_s: float, tell: Tell) -> dict[str, Any]:
    """The answer that stands in the file beside this one."""
    answers: dict[str, dict[str, Any]] = json.loads(ANSWERS.read_text())
    return answers.get(name, {"error": "none recorded"})


def exit_code(results: Sequence[Result]) -> int:
    """1 before 3: what is wrong weighs more than what was not seen."""
    verdicts = {line.verdict for result in results for line in result.lines}
    return WRONG if "not as expected" in verdicts else NOT_SEEN if "not seen" in verdicts or not verdicts else OK


def main(words: Sequence[str] | None = None) -> int:
    """Returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu_check", description=NEVER_SEEN)
    parser.add_argument("--out", type=Path, default=Path("results"), help="where the result folder is made")
    parser.add_argument("--tier", choices=TIERS, default="one", help="checks of one board, of several, or more of one")
    parser.add_argument("--only", default="", help=f"of {', '.join(BUDGET_S)}")
    parser.add_argument("--budget-s", type=float, default=TOTAL_S, help="seconds in all")
    parser.add_argument("--dry-run", action="store_true", help="judge recorded answers, on any machine")
    asked = parser.parse_args(words)
    names = [name for name in asked.only.split(",") if name] or list(TIERS[asked.tier])
    if unknown := [name for name in names if name not in BUDGET_S]:
        print(f"no check {unknown[0]!r}; there are {', '.join(BUDGET_S)}", file=sys.stderr)
        return NO_SUCH_NAME
    print(NEVER_SEEN, flush=True)
    stamp = datetime.now(UTC).strftime("%Y-%m-%dT%H%M%SZ")
    out = asked.out / f"gpu-check-{stamp}{'-dry' if asked.dry_run else ''}"
    results = check(names, recorded if asked.dry_run else on_this_machine, out, asked.budget_s)
    print(f"\nwritten: {out}")
    return exit_code(results)


def _asked(ask: Ask, name: str, out: Path, limit_s: float, tell: Tell) -> dict[str, Any]:
    try:
        return ask(name, out, limit_s, tell)
    except KeyboardInterrupt:
        return {"error": INTERRUPTED}
    except Exception as error:  # whatever one check does, the others are still worth having
        return {"error": f"{type(error).__name__}: {error}"}


def _write(results: Sequence[Result], out: Path) -> None:
    told = "Answers recorded by hand, no device was asked." if out.name.endswith("-dry") else f"Taken {out.name[10:]}."
    (out / "summary.md").write_text(markdown(results, told))
    data = {"never_seen_before": NEVER_SEEN, "results": [asdict(result) for result in results]}
    (out / "result.json").write_text(json.dumps(data, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
