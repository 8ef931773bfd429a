"""Layouts of serving as tables spell them: degrees of parallelism, and workers that prefill and decode apart."""

from __future__ import annotations

import re

from benchmarks.prediction.case import Case, No, count

GROUPS = "groups that share experts"


def layout_name(case: Case) -> str:
    """How devices share a copy, as tables of accuracy call it."""
    if "workers" in case.layout:
        return "prefill and decode apart"
    return GROUPS if case.layout.get("data", 1.0) > 1 else "tensor and pipeline"


def serving_layout(text: str, provenance: str = "", devices: int = 1) -> dict[str, float]:
    """The layout that a row states, as degrees. Raises No for what the model does not describe."""
    low = text.lower()
    if "disagg" in low or re.search(r"\bp:\S*x\(", low):
        return _disaggregated(low)
    if "layer-split" in low:
        return {"serial": 1.0, "tensor": 1.0, "stages": float(count(low, devices or 1))}

    def degree(name: str) -> int | None:
        found = re.search(rf"(?<![a-z_]){name}[ =:]*(\d+)", low)
        return int(found.group(1)) if found else None

    dep, tep = degree("dep"), degree("tep")
    if dep:
        return {"tensor": 1.0, "data": float(dep), "expert": float(dep), "pipeline": float(degree("pp") or 1)}
    tp, dp, pp, ep, moe_tp = (degree(k) for k in ("tp", "dp", "pp", "ep", "moe_tp"))
    if tep:
        tp, ep = tep, tep
    if 0 in (tp, dp, pp):
        raise No("the layout states 0 devices")
    if tp is None and dp is None and pp is None:
        if devices <= 1:
            return {"tensor": 1.0}
        raise No("the layout over several devices is not stated")
    tp, dp, pp, ep, moe_tp = tp or 1, dp or 1, pp or 1, ep or 1, moe_tp or 1
    # A converter multiplied tp by ep where experts are split over the same devices: the id has the launched degrees.
    if moe_tp > 1 and ep > 1 and tp * dp == moe_tp * ep:
        launched = re.search(r"_tp(\d+)(?:_\d+)?_ep_?(\d+)", provenance)
        if launched is None or int(launched.group(1)) == moe_tp:
            tp, dp = (1, moe_tp) if dp > 1 else (moe_tp, 1)
            ep = min(ep, moe_tp)
    return {"tensor": float(tp), "data": float(dp), "pipeline": float(pp), "expert": float(ep)}


def _disaggregated(low: str) -> dict[str, float]:
    found = re.search(r"p: *(\S+?) *x *\((.*?)\).*?d: *(\S+?) *x *\((.*?)\)", low)
    if found is None or not found.group(1).isdigit() or not found.group(3).isdigit():
        raise No("prefill and decode on separate workers, whose numbers are not stated")
    first, rest = serving_layout(found.group(2)), serving_layout(found.group(4))
    workers = {"first_workers": float(found.group(1)), "workers": float(found.group(3))}
    return {**rest, **{f"first_{name}": value for name, value in first.items()}, **workers}
