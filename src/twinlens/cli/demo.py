"""`twinlens demo`: the main job on an embedded default, both lenses, and a report at the end."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from twinlens.api import demo_studies
from twinlens.cli.measure import fail_if_any, measure_with_progress
from twinlens.cli.report import write_report
from twinlens.cli.screen import err, out, print_json, sentences
from twinlens.cli.show import show_runs, summaries_json
from twinlens.measurement.study import Outcome
from twinlens.measurement.summary_file import summary_of
from twinlens.record.store import end_study
from twinlens.reporting.paired import Paired
from twinlens.reporting.text.paired_table import paired_of
from twinlens.reporting.text.sentence import both_counts
from twinlens.reporting.text.sentence import sentences as words
from twinlens.stats.summary.group import Group, group


def run(folder: Path, json: bool, quiet: bool, fresh: bool) -> None:
    with sentences():
        studies = demo_studies()
        outcomes = [measure_with_progress(study, folder, quiet, fresh, shown=False) for study in studies]
        runs = [one for outcome in outcomes for one in outcome.runs]
        report = folder / f"{outcomes[0].folder.name}.html"
        write_report(runs, report, "Twinlens demo")
        if json:
            print_json(summaries_json(runs))
        else:
            show_runs(runs)
            # The sentences are about the one model that both lenses saw.
            groups = [one for one in group(map(summary_of, runs)) if one.model == studies[0].workload.model]
            console = out()
            for sentence in _said(groups, outcomes[-1], paired_of(groups, runs)):
                console.print(sentence)
            console.print()
        err().print(f"report: {report.resolve()}", soft_wrap=True)
        sys.stdout.flush()
        for outcome in outcomes:
            end_study(outcome.folder)
        for outcome in outcomes:
            fail_if_any(outcome)


def _said(groups: list[Group], served: Outcome, turns: Sequence[Paired]) -> list[str]:
    """The three sentences, of engine-level runs, and the two ways of counting of the served one."""
    ids = {one.id for one in served.runs}
    apart = [[one for one in groups if (one.runs[0].run in ids) is is_served] for is_served in (False, True)]
    said = words(*([one for one in apart[0] if one.lens == lens] for lens in ("training", "inference")), paired=turns)
    stalls = [one.spec.protocol.stall for one in served.runs]
    counts = [both_counts(one, stalls[0].for_s) for one in apart[1] if stalls[0] is not None]
    return [*said, *filter(None, counts)]
