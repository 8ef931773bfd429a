"""Verbs that read runs: what they came to, what binds them, how far apart they are."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from twinlens.api.question import Kind, Question, argument, option
from twinlens.cli.verb.options import FILE, FLAG, FOLDER, NAME, PAGE, Json, Runs
from twinlens.system.numpy_threads import load_numpy


class Show(Question):
    """A run on one screen, or the points of a study in tables. With --as vllm: as that tool counts."""

    runs: Runs
    json_: Json = False
    tool: Annotated[str, option("In the figures of another tool.", Kind("TOOL"), "--as")] | None = None
    all_: Annotated[bool, option("Every metric, and how each was computed.", FLAG)] = False
    csv: Annotated[bool, option("Every metric of every run, a line each.", FLAG)] = False
    markdown: Annotated[bool, option("For an issue or a pull request.", FLAG)] = False
    parquet: Annotated[Path, option("Write the steps or requests to a file.", FILE)] | None = None


def show(asked: Show) -> None:
    load_numpy()
    from twinlens.cli.show import Form, run

    form = Form(asked.json_, asked.tool, asked.all_, asked.csv, asked.markdown, asked.parquet)
    run(list(asked.runs), form)


class Diagnose(Question):
    """What binds a run: its time by part, four counters, and what to try."""

    runs: Runs = ()
    json_: Json = False
    all_: Annotated[bool, option("Every finding, with all that decided.", FLAG)] = False
    self_test: Annotated[bool, option("Saturate one resource after another here; RUN may name cases.", FLAG)] = False
    try_: Annotated[bool, option("Measure the change that would prove its verdict wrong.", FLAG)] = False
    file: Annotated[Path, option("Write an HTML page, too.", PAGE, "-o", "--output")] | None = None
    ceilings: Annotated[Path, option("Of the server's machine, from `probe --json`.", Kind("PROBE.json"))] | None = None
    instrument: Annotated[str, option("Its work once more, watched; in no figure.", Kind("profiler"))] | None = None


def diagnose(asked: Diagnose) -> None:
    if not (asked.self_test or asked.try_ or asked.instrument):  # these measure
        load_numpy()
    if asked.self_test:
        from twinlens.cli.self_test import run as run_self_test

        run_self_test(list(map(str, asked.runs)), asked.json_)
        return
    from twinlens.cli.diagnose import run

    run(list(asked.runs), asked.json_, asked.all_, asked.file, asked.ceilings, asked.try_, asked.instrument)


class Compare(Question):
    """Whether runs may be compared, how far apart they are, and why."""

    runs: Annotated[
        tuple[Path, ...], argument("Run or study folders, the baseline first; FOLDER@batch=4: a point.", "RUN")
    ]
    json_: Json = False
    all_: Annotated[bool, option("Every finding and every figure.", FLAG)] = False
    markdown: Annotated[bool, option("A table for a pull request.", FLAG)] = False
    fail_if: Annotated[tuple[str, ...], option("Exit 1 beyond it: 'TTFT p99 +5%'.", Kind("LIMIT"))] = ()
    file: Annotated[Path, option("Write an HTML page, too.", PAGE, "-o", "--output")] | None = None
    ledger: Annotated[bool, option("A baseline and steps, with what each one gave.", FLAG)] = False
    price_per_hour: (
        Annotated[float, option("Of the machine, for the cost column of a ledger.", Kind("PRICE"))] | None
    ) = None
    per_month: Annotated[float, option("Inferences a month, for what a step repays.", Kind("COUNT"))] | None = None
    table: (
        Annotated[
            str, option("lenses: both side by side; runtimes: the kernels' share; switches: each.", Kind("TABLE"))
        ]
        | None
    ) = None
    noise: Annotated[Path, option("One spec at three times: the noise floor.", FOLDER)] | None = None
    history: Annotated[bool, option("The metric over time: when it changed, and what changed then.", FLAG)] = False
    metric: Annotated[str, option("This one only: 'TTFT p99', 'tokens/s' …", NAME)] | None = None


def compare(asked: Compare) -> None:
    load_numpy()
    from twinlens.cli.compare import Form, run, run_ledger, run_table

    runs = list(asked.runs)
    if asked.history:
        from twinlens.cli.history import run as run_history

        run_history(runs, asked.metric, json=asked.json_, markdown=asked.markdown, whole=asked.all_, page=asked.file)
    elif asked.table is not None:
        run_table(runs, asked.table, asked.json_, asked.all_, asked.file)
    elif asked.ledger:
        run_ledger(runs, asked.json_, asked.price_per_hour, asked.per_month, asked.file)
    else:
        run(runs, Form(asked.json_, asked.all_, asked.markdown, asked.fail_if, asked.file, asked.noise, asked.metric))


class Report(Question):
    """Write one self-contained HTML file."""

    runs: Runs
    file: Annotated[Path, option("Where the page is written.", PAGE, "-o", "--output")] = Path("report.html")


def report(asked: Report) -> None:
    load_numpy()
    from twinlens.cli.report import run

    run(list(asked.runs), asked.file)
