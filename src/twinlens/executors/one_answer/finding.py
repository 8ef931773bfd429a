"""Findings on a server whose answers come in one piece: what counts as an answer, and what has no meaning then."""

from __future__ import annotations

from typing import Any

from twinlens.record.finding import Finding
from twinlens.spec.workload.task import Task, items_per_request


def one_answer_findings(task: Task, width: int | None, *, has_stamps: bool, sent: str = "") -> tuple[Finding, ...]:
    """`width`: numbers in each result, None where nobody said and no request was sent before. `sent`: how an image is
    sent, "" for text."""
    numbers: dict[str, Any] = {"task": task.kind, "items": items_per_request(task)} | (
        {"width": width} if width else {}
    )
    numbers |= {"sent": sent} if sent else {}
    stamps = () if has_stamps else (Finding("no-kernel-stamps", "notes"),)
    return (Finding("one-answer", "notes", "", numbers), *stamps)
