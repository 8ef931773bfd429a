"""Verbs that read runs: what they came to, what binds them, how far apart they are."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from twinlens.cli.verb.options import Json, MaybeRuns, RunPaths, Sides
from twinlens.system.numpy_threads import load_numpy


def show(
    runs: RunPaths,
    json: Json = False,
    tool: Annotated[str | None, typer.Option("--as", metavar="TOOL", help="In the figures of another tool.")] = None,
    whole: Annotated[bool, typer.Option("--all", help="Every metric, and how each was computed.")] = False,
    csv: Annotated[bool, typer.Option("--csv", help="Every metric of every run, a line each.")] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="For an issue or a pull request.")] = False,
    parquet: Annotated[
        Path | None, typer.Option("--parquet", metavar="FILE", help="Write the steps or requests to a file.")
    ] = None,
) -> None:
    """A run on one screen, or the points of a study in tables. With --as vllm: as that tool counts."""
    load_numpy()
    from twinlens.cli.show import Form, run

    run(runs, Form(json, tool, whole, csv, markdown, parquet))


def diagnose(
    runs: MaybeRuns = None,
    json: Json = False,
    whole: Annotated[bool, typer.Option("--all", help="Every finding, with all that decided.")] = False,
    self_test: Annotated[
        bool, typer.Option("--self-test", help="Saturate one resource after another here; RUN may name cases.")
    ] = False,
    try_: Annotated[bool, typer.Option("--try", help="Measure the change that would prove its verdict wrong.")] = False,
    file: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE.html", help="Write an HTML page, too.")
    ] = None,
    ceilings: Annotated[
        Path | None,
        typer.Option("--ceilings", metavar="PROBE.json", help="Of the server's machine, from `probe --json`."),
    ] = None,
    instrument: Annotated[
        str | None, typer.Option("--instrument", metavar="profiler", help="Its work once more, watched; in no figure.")
    ] = None,
) -> None:
    """What binds a run: its time by part, four counters, and what to try."""
    if not (self_test or try_ or instrument):  # these measure
        load_numpy()
    if self_test:
        from twinlens.cli.self_test import run as run_self_test

        run_self_test(list(map(str, runs or ())), json)
        return
    from twinlens.cli.diagnose import run

    run(runs or [], json, whole, file, ceilings, try_, instrument)


def compare(
    runs: Sides,
    json: Json = False,
    whole: Annotated[bool, typer.Option("--all", help="Every finding and every figure.")] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="A table for a pull request.")] = False,
    fail_if: Annotated[
        list[str] | None, typer.Option("--fail-if", metavar="LIMIT", help="Exit 1 beyond it: 'TTFT p99 +5%'.")
    ] = None,
    file: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE.html", help="Write an HTML page, too.")
    ] = None,
    ledger: Annotated[bool, typer.Option("--ledger", help="A baseline and steps, with what each one gave.")] = False,
    price_per_hour: Annotated[
        float | None, typer.Option(metavar="PRICE", help="Of the machine, for the cost column of a ledger.")
    ] = None,
    per_month: Annotated[
        float | None, typer.Option(metavar="COUNT", help="Inferences a month, for what a step repays.")
    ] = None,
    table: Annotated[
        str | None,
        typer.Option(metavar="TABLE", help="lenses: both side by side; runtimes: the kernels' share; switches: each."),
    ] = None,
    noise: Annotated[
        Path | None, typer.Option("--noise", metavar="FOLDER", help="One spec at three times: the noise floor.")
    ] = None,
    history: Annotated[
        bool, typer.Option("--history", help="The metric over time: when it changed, and what changed then.")
    ] = False,
    metric: Annotated[
        str | None, typer.Option("--metric", metavar="NAME", help="This one only: 'TTFT p99', 'tokens/s' …")
    ] = None,
) -> None:
    """Whether runs may be compared, how far apart they are, and why."""
    load_numpy()
    from twinlens.cli.compare import Form, run, run_ledger, run_table

    if history:
        from twinlens.cli.history import run as run_history

        run_history(runs, metric, json=json, markdown=markdown, whole=whole, page=file)
    elif table is not None:
        run_table(runs, table, json, whole, file)
    elif ledger:
        run_ledger(runs, json, price_per_hour, per_month, file)
    else:
        run(runs, Form(json, whole, markdown, tuple(fail_if or ()), file, noise, metric))


def report(
    runs: RunPaths,
    file: Annotated[Path, typer.Option("-o", "--output", metavar="FILE.html")] = Path("report.html"),
) -> None:
    """Write one self-contained HTML file."""
    load_numpy()
    from twinlens.cli.report import run

    run(runs, file)
