"""What is a ratio worth beside a neighbour? bf16 against fp32, training and decode, by turns and run after run.

Three times the demo's own studies: by turns on the machine as it is, by turns beside a neighbour that takes one
processor in random bursts, and beside the same neighbour without turns. Wanted: ±5 % at 95 % beside the neighbour, in
the demo's time, and in agreement with the first.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.disturber import disturbed
from benchmarks.finding import Finding
from twinlens.api.measuring.demo import demo_studies
from twinlens.measurement.study import measure_study
from twinlens.measurement.summary_file import summary_of
from twinlens.record.estimate import Estimate
from twinlens.reporting.comparing.paired import paired_of
from twinlens.reporting.paired import Paired
from twinlens.reporting.point_name import precision_of
from twinlens.reporting.view import headline, why_not_valid
from twinlens.spec.study import Study
from twinlens.stats.estimator.ratio import ratio, ratio_of_runs
from twinlens.stats.summary.group import Group, group
from twinlens.units import RATIO

WITHIN = 0.05
Ratios = dict[str, tuple[Estimate, str]]
"""Metric → the ratio of bf16 to fp32, and what is said of it."""


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks paired", description=__doc__)
    parser.add_argument("--busy-s", type=float, default=3.0, help="mean length of a burst (3)")
    parser.add_argument("--idle-s", type=float, default=3.0, help="mean pause between bursts (3)")
    parser.add_argument("--repeats", type=int, help="those of the demo, unless given")
    parser.add_argument("--model", help="that of the demo, unless given")
    parser.add_argument("--lens", choices=("training", "inference"), help="only one of the two")
    parser.add_argument("--keep", type=Path, help="folder for the runs (else they are deleted)")
    return parser


def run(asked: argparse.Namespace) -> tuple[list[Finding], list[str]]:
    """The findings and what to know about them."""
    findings: list[Finding] = []
    notes = [f"The neighbour: bursts of {asked.busy_s:g} s and pauses of {asked.idle_s:g} s on average, one processor."]
    with contextlib.ExitStack() as stack:
        folder = asked.keep or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        for study in studies(asked):
            findings += _of_lens(study, folder, asked, notes)
    return findings, notes


def studies(asked: argparse.Namespace) -> list[Study]:
    """The demo's studies of the two lenses at fp32 and bf16, in slices."""
    chosen = [one for one in demo_studies() if one.protocol.pairing == "slices" and asked.lens in (None, one.lens)]
    return [_changed(one, asked) for one in chosen]


def alone(study: Study) -> Study:
    """The same measured one run after another, as it was before there were turns."""
    return study.model_copy(update={"protocol": study.protocol.model_copy(update={"pairing": "none"})})


def _changed(study: Study, asked: argparse.Namespace) -> Study:
    protocol = study.protocol.model_copy(update={"repeats": asked.repeats} if asked.repeats else {})
    workload = study.workload.model_copy(update={"model": asked.model} if asked.model else {})
    sweep = {"precision": ("fp32", "bf16")}
    return study.model_copy(update={"protocol": protocol, "workload": workload, "sweep": sweep})


def _of_lens(study: Study, folder: Path, asked: argparse.Namespace, notes: list[str]) -> list[Finding]:
    quiet, quiet_s = _measured(study, folder / f"{study.lens}-quiet")
    with disturbed(asked.busy_s, asked.idle_s):
        paired, paired_s = _measured(study, folder / f"{study.lens}-paired")
        plain, plain_s = _measured(alone(study), folder / f"{study.lens}-alone")
    notes.append(
        f"{study.lens}: {quiet_s:.0f} s by turns, {paired_s:.0f} s beside the neighbour; {plain_s:.0f} s without turns."
    )
    nothing = (Estimate.absent(RATIO, "not measured"), "")
    findings = []
    for name in quiet:
        found = {"by turns": quiet[name], "by turns, neighbour": paired.get(name, nothing)}
        found["no turns, neighbour"] = plain.get(name, nothing)
        for how, (estimate, note) in found.items():
            findings.append(Finding(f"{study.lens} {name}, bf16/fp32, {how}", estimate, note=note))
            target = WITHIN if how == "by turns, neighbour" else None
            findings.append(Finding(f"{study.lens} {name}, half-width, {how}", half_width(estimate), target))
        agreement = ratio(paired.get(name, nothing)[0], quiet[name][0])
        findings.append(
            Finding(f"{study.lens} {name}, beside the neighbour over without", agreement, note=agrees(agreement))
        )
    return findings


def _measured(study: Study, folder: Path) -> tuple[Ratios, float]:
    begin_s = time.monotonic()
    outcome = measure_study(study, folder, fresh=True)
    took_s = time.monotonic() - begin_s
    groups = group(map(summary_of, outcome.runs))
    turns = paired_of(groups, outcome.runs)
    if study.protocol.pairing == "slices":
        return {one.result.metric: (one.result.ratio, _said(one)) for one in turns}, took_s
    return _one_after_another(groups), took_s


def _said(one: Paired) -> str:
    others = f"others in {one.result.disturbed_slices} of {one.result.slices} slices"
    return f"{one.fault or 'valid'}; {one.result.blocks} rounds, {others}"


def _one_after_another(groups: Sequence[Group]) -> Ratios:
    """The ratio of run means, whether or not anything is valid."""
    sides = {precision_of(one): one for one in groups}
    faults = [why for one in groups if (why := why_not_valid(one))]
    note = faults[0] if faults else "valid"
    found: Ratios = {}
    first = headline(groups[0])
    for name in (first[0] if first else "", "decode_tokens_per_s"):
        rates = [
            [
                run.metrics[name].value
                for run in sides[precision].runs
                if name in run.metrics and run.metrics[name].value
            ]
            for precision in ("bf16", "fp32")
        ]
        if all(rates):
            found[name] = ratio_of_runs(*rates), note[:160]
    return found


def half_width(estimate: Estimate) -> Estimate:
    """Half the interval relative to the value."""
    if estimate.value is None or estimate.low is None or estimate.high is None or estimate.level is None:
        return Estimate.absent(RATIO, "there is no interval")
    half = math.log(estimate.high / estimate.low) / 2 if estimate.low > 0 else math.inf
    if not math.isfinite(half):
        return Estimate.absent(RATIO, "the interval reaches 0")
    return Estimate(half, RATIO, "half the interval of the logarithm", "derived", n=estimate.n)


def agrees(agreement: Estimate) -> str:
    """Whether the interval of a ratio of two figures of the same thing holds 1."""
    if agreement.low is None or agreement.high is None:
        return "no interval"
    return "agrees" if agreement.low <= 1 <= agreement.high else "does not agree"
