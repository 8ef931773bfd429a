"""The verbs as Python functions, under the same names as on the command line."""

from __future__ import annotations

import builtins
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from twinlens.measurement.facts.predicted_work import theory_of
from twinlens.measurement.machine.probe import Probe
from twinlens.measurement.machine.probe import probe as _probe
from twinlens.measurement.preflight.memory import needed
from twinlens.measurement.preflight.refuse import preflight
from twinlens.measurement.search import measure_search
from twinlens.measurement.study import Outcome, Watch, measure_study
from twinlens.measurement.summary_file import summary_of
from twinlens.pages import find
from twinlens.record.estimate import Estimate
from twinlens.record.run import Run
from twinlens.record.search import searches_of
from twinlens.record.store import end_study, find_runs
from twinlens.reporting.available import rows_of
from twinlens.reporting.html.render import write
from twinlens.reporting.notebook import register
from twinlens.reporting.text.first_lines import first_lines
from twinlens.reporting.text.paired_table import paired_of, paired_table
from twinlens.reporting.text.peer_table import peer_figures
from twinlens.reporting.text.search_table import search_table
from twinlens.reporting.text.table import metric_table, plain, summary_table
from twinlens.reporting.view import view
from twinlens.spec.load import load_example
from twinlens.spec.study import Study
from twinlens.stats.summary.group import Summary, group

_DEMO = ("training", "inference", "quality", "serving")

if "IPython" in sys.modules:
    register(summary_of)  # runs show themselves in a notebook


def measure(
    study: Study, out: str | Path = "runs", *, watch: Watch = lambda event: None, fresh: bool = False
) -> Outcome:
    """Run a study: every operating point, every repeat in a fresh process, going on where it was interrupted.

    A study with a search looks for the highest rate within its SLO instead, and writes search.json. Raises BadInput for
    what cannot be run, Interrupted; runs that failed are named in the outcome.
    """
    go = measure_study if study.search is None else measure_search
    return go(study, Path(out), watch, fresh=fresh)


def check(study: Study) -> builtins.list[dict[str, Any]]:
    """What theory says of each operating point; touches nothing. Raises BadInput for a run that cannot be."""
    found = []
    points = study.point_runs()
    preflight(points)
    for spec in points:
        memory_bytes, arithmetic = needed(spec)
        found.append(
            {
                "point": spec.point,
                "memory_bytes": memory_bytes,
                "memory": arithmetic,
                "theory": theory_of(spec),
            }
        )
    return found


def probe(device: str = "auto") -> Probe:
    """Who is this machine: captured facts and measured ceilings."""
    return _probe(device)


def read(*paths: str | Path) -> builtins.list[Run]:
    """The runs in run folders, study folders, or folders of them. Raises BadInput."""
    return [run for path in paths for run in find_runs(path)]


def summary(run: Run) -> Summary:
    """Every metric of a run, and whether it was steady."""
    return summary_of(run)


def show(*runs: Run) -> str:
    """The table that `twinlens show` prints, as text of 80 columns."""
    if len(runs) == 1:
        tables = [plain(metric_table(summary_of(runs[0])))]
    else:
        groups = group(summary_of(run) for run in runs)
        lenses = [lens for lens in ("training", "inference") if any(one.lens == lens for one in groups)]
        turns = paired_of(groups, runs)
        tables = [plain(first_lines(groups, turns))]
        tables += [plain(summary_table(groups, lens)) for lens in lenses]  # type: ignore[arg-type]
        tables += [plain(paired_table(turns))] if turns else []
    return "\n".join([*tables, *(plain(search_table(record)) for record in searches_of(runs))])


def peers(run: Run, tool: str) -> dict[str, Estimate]:
    """What another tool would print of a served run, by its own names: `tl.peers(run, "vllm")["p99_ttft_ms"]`.

    `tool`: vllm, guidellm, aiperf, mlperf, genai-bench or inference-perf. Raises BadInput.
    """
    return peer_figures(run, tool)


def demo(
    out: str | Path = "runs", *, watch: Watch = lambda event: None, fresh: bool = False
) -> tuple[builtins.list[Run], Path]:
    """The bundled studies, both lenses, and a report of them in `out`. Returns their runs and the report's path."""
    outcomes = [measure(study, out, watch=watch, fresh=fresh) for study in demo_studies()]
    runs = [run for outcome in outcomes for run in outcome.runs]
    path = report(runs, Path(out) / f"{outcomes[0].folder.name}.html", "Twinlens demo")
    for outcome in outcomes:
        end_study(outcome.folder)
    return runs, path


def demo_studies() -> tuple[Study, ...]:
    """The bundled studies, in the order they are measured."""
    return tuple(load_example(f"demo-{name}") for name in _DEMO)


def list(kind: str = "kinds", out: str | Path = "runs") -> builtins.list[dict[str, Any]]:
    """What `twinlens list KIND` prints, as rows: models, precisions, executors, metrics, devices, examples, runs.

    Raises BadInput (TL204) with the nearest kind.
    """
    return rows_of(kind, Path(out))


def report(runs: Sequence[Run], to: str | Path, title: str | None = None) -> Path:
    """Write one self-contained HTML file. Returns its path."""
    path = Path(to)
    write(view([(run, summary_of(run)) for run in runs], title, searches_of(runs)), path)
    return path


def explain(word: str) -> str:
    """The page of a metric, label, error or term, as Markdown. Raises BadInput with the nearest word."""
    return find(word).text
