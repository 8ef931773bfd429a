"""Narrower precisions in words: predicted, by its bits alone, and measured."""

from __future__ import annotations

from twinlens.record.finding import Finding
from twinlens.reporting import display
from twinlens.reporting.display import clean
from twinlens.reporting.wording.number import number, numbers, percent
from twinlens.units import BYTES, digits, show


def _sentence(finding: Finding) -> str:
    parts = [f"{_head(finding)} {_of_bytes(finding)}", _of_engine(finding), _until(finding), _measured(finding)]
    return " ".join(part for part in parts if part)


def _head(finding: Finding) -> str:
    naive, own = numbers(finding, "naive", "from")
    gain = f"×{digits(number(finding, 'predicted'), 3)}{_range(finding)}"
    name = clean(finding.subject, 40)
    not_naive = f"the speed of {clean(own, 40)}, where its bits alone say ×{digits(naive, 2)}."
    if finding.code == "quantise-memory":
        return f"{name} saves memory and hardly time. By the roofline {gain} {not_naive}"
    unit = number(finding, "unit")
    likely = "shortens" if finding.code == "quantise-latency" else "may shorten"
    return f"{name} {likely} the {unit}. By the roofline {gain} {not_naive}"


def _of_bytes(finding: Finding) -> str:
    floor, whole, unit = numbers(finding, "floor_s", "seconds", "unit")
    rest = f"{percent(max(0.0, 1 - floor / whole))} of a {unit} is neither its arithmetic nor its bytes, and stays."
    if "bytes_ratio" not in finding.numbers:
        return rest
    ratio, saved = numbers(finding, "bytes_ratio", "saved_bytes")
    scales = f"With scales and head, its weights are ×{digits(ratio, 3)} smaller ({show(saved, BYTES)} less)."
    return f"{scales} {rest}"


def _of_engine(finding: Finding) -> str:
    fmt, same, support = numbers(finding, "computes_in", "same_compute", "support")
    if finding.numbers.get("training"):
        return f"The matrix engine has {fmt}." if support == "native" else ""
    if same:
        return f"It multiplies in {fmt} as before, so prefill gains nothing."
    return (
        f"It multiplies in {fmt}, which the matrix engine has." if support == "native" else f"It multiplies in {fmt}."
    )


def _until(finding: Finding) -> str:
    until, batch = finding.numbers.get("until_batch"), finding.numbers.get("batch")
    if until is None or batch is None:
        return ""
    if batch >= until:
        return f"At batch {batch} arithmetic binds decode already (from about {until:,.0f} on)."
    return f"From a batch of about {until:,.0f} on, arithmetic binds decode and narrower weights give it nothing."


def _measured(finding: Finding) -> str:
    ratio = finding.evidence.get("measured")
    if ratio is None:
        return "Not measured in this study."
    if ratio.value is None:
        return f"Measured: no ratio ({clean(ratio.lacks, 120)})."
    bounds = display.factor_bounds(ratio)
    count = f", n = {ratio.n}" if ratio.n else ""
    ranked = "" if finding.numbers.get("ranked") else "; not valid"
    passes = finding.numbers.get("passes")
    gate = "" if passes is None else "; fidelity go" if passes else "; fidelity no-go"
    outside = " The prediction lies outside it." if finding.numbers.get("is_outside") else ""
    return f"Measured: ×{digits(ratio.value, 3)} ({bounds or 'no interval'}{count}{ranked}{gate}).{outside}"


def _clause(finding: Finding) -> str:
    naive, predicted = numbers(finding, "naive", "predicted")
    name = clean(finding.subject, 40)
    kind = {"quantise-memory": "only memory, ", "quantise-unclear": "perhaps "}.get(finding.code, "")
    ratio = finding.evidence.get("measured")
    told = f", measured ×{digits(ratio.value, 3)}" if ratio is not None and ratio.value is not None else ""
    return f"{name} {kind}×{digits(predicted, 2)}{_range(finding)}{told} (bits ×{digits(naive, 2)})"


def _range(finding: Finding) -> str:
    low, high = numbers(finding, "at_least", "at_most")
    words = [digits(low, 3), digits(high, 3)]
    return "" if words[0] == words[1] else f" ({'–'.join(words)})"


SENTENCES = dict.fromkeys(("quantise-latency", "quantise-memory", "quantise-unclear"), _sentence)
CLAUSES = dict.fromkeys(SENTENCES, _clause)
