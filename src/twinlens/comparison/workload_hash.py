"""The hash of the work that a side did: equal for sides that did the same work, whatever did it and however fast."""

from __future__ import annotations

import hashlib
import json

from twinlens.comparison.aspect import is_partial, rule_of_path
from twinlens.comparison.side import Side


def workload_hash(side: Side) -> str:
    """Twelve hex digits over model, lengths, content, arrivals and load; not over how the runtime batches them.

    The model goes in by the hash of its weights where that was observed, as one model lies under several names. Targets
    and quality settings stay out: they judge the work and do not change it.
    """
    asked = side.spec
    paths = {f"{table}.{name}": value for table in ("workload", "point") for name, value in asked[table].items()}
    work = {path: value for path, value in paths.items() if _is_work(path)}
    weights = {str(hash) for run in side.runs if run.facts and (hash := run.facts.executor.value("model.weights_hash"))}
    if len(weights) == 1:
        work["workload.model"] = weights.pop()
    return hashlib.sha256(json.dumps([side.lens, work], sort_keys=True).encode()).hexdigest()[:12]


def _is_work(path: str) -> bool:
    rule = rule_of_path(path)
    return rule.aspect in ("content", "workload") or (rule.role == "M" and not is_partial(rule.aspect))
