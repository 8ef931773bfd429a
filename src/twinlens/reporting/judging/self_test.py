"""Document of the self-test: each case, what was found, and the numbers that decided."""

from __future__ import annotations

from collections.abc import Sequence

from twinlens.proof.carry_out import Result
from twinlens.record.finding import Finding
from twinlens.reporting.display import clean
from twinlens.reporting.document.block import Cell, Document, Line, Table, cells, row
from twinlens.reporting.wording.diagnosis import part_words
from twinlens.reporting.wording.number import percent
from twinlens.units import digits

_MARKS = {"right": "✓", "wrong": "✗", "undecided": "?", "not tested": "–"}
_MORE = "explain diagnosis: the cases and how it decides; --json: every number"


def self_test_document(results: Sequence[Result]) -> Document:
    """A line or two for each case. At most 24 lines at 80 columns."""
    heads = ("", "saturated", "found", "decided by")
    blocks = (
        Table("Cases.", heads, tuple(map(_row, results)), ("left",) * 4, gap=1, remarks=True),
        Line(_counted(results), is_lead=True),
        row("more", [_MORE], "dim"),
    )
    return Document("Self-test of the diagnosis", _counted(results), blocks)


def _row(result: Result) -> tuple[Cell, ...]:
    found = result.found.verdict.code if result.found else "not tested"
    told = "the same" if result.outcome == "right" else found
    return cells((_MARKS[result.outcome], result.case.expected, told, decided_by(result)))


def _counted(results: Sequence[Result]) -> str:
    """ "7 of 8 named rightly, 1 undecided": a busy machine leaves cases undecided, which is no fault."""
    count = {outcome: sum(each.outcome == outcome for each in results) for outcome in _MARKS}
    others = [f"{count[outcome]} {outcome}" for outcome in ("wrong", "undecided", "not tested") if count[outcome]]
    return ", ".join([f"{count['right']} of {len(results)} named rightly", *others]) + "."


# Sentences on the self-test: why each case saturates what it does, and what decided.

WHY = {
    "compute-bound": "products of 256 rows with wide weights: each byte is used for more FLOP than the ridge asks",
    "bandwidth-bound": "one sequence: each step reads half a gigabyte of weights and uses each byte once",
    "below-ceilings": "one sequence through a model of 1 M weights: the products take far less than what calls them",
    "input-bound": "each batch is unpacked from compressed text in Python, for longer than the step computes",
    "interconnect-bound": "two processes train on one sample each and add up gradients of 8 M weights over gloo",
    "host-bound": "the server spends 60 ms in Python on each prompt before its engine hears of it",
    "queue-bound": "eight requests at a time before a server that runs two: the others wait in its queue",
    "capacity-bound": "eight requests before eight slots, and a KV cache that holds two of them",
}
"""By case: what its program does, so that this resource binds it and no other."""


def why_words(case: str) -> str:
    """Why a case is as it is; of another version, nothing."""
    return WHY.get(case, "")


def decided_by(result: Result) -> str:
    """The numbers that decided, in a few words; of a case that was not tested, the reason."""
    if result.found is None:
        return clean(result.reason, 200)
    verdict = result.found.verdict
    if "parts" in verdict.numbers:
        return _by_parts(verdict, result.found.partition.unit)
    return _by_roof(verdict) if "compute_share" in verdict.numbers else clean(verdict.numbers.get("why", ""), 60)


def _by_parts(verdict: Finding, unit: str) -> str:
    named = " and ".join(map(part_words, verdict.numbers["parts"]))
    put_back, use = verdict.numbers.get("preemptions"), verdict.numbers.get("kv_use")
    full = f", KV cache {percent(use)}" if use is not None else ""
    again = f", {put_back:,.0f} preempted" if put_back else ""
    return f"{percent(verdict.numbers['share'])} of the {unit}: {named}{full}{again}"


def _by_roof(verdict: Finding) -> str:
    numbers = verdict.numbers
    rates = f"{percent(numbers['compute_share'])} of matrix rate, {percent(numbers['bandwidth_share'])} of bandwidth"
    had = numbers.get("on_processor")
    less = f"; processor {percent(had)} of the time" if had is not None else ""
    return f"{rates}; {digits(numbers['intensity_high'], 2)} FLOP/byte, ridge {digits(numbers['ridge'], 2)}{less}"


def wrong_words(results: tuple[Result, ...]) -> str:
    """Which cases were named wrongly, in one sentence; or that none was named rightly; "" where all is well."""
    wrong = [f"{each.case.expected} as {each.found.verdict.code}" for each in results
             if each.outcome == "wrong" and each.found]  # fmt: skip
    if wrong:
        return f"the diagnosis named {', '.join(wrong)}; its verdicts on this machine are not to be trusted"
    if not any(each.outcome == "right" for each in results):
        return "no case was named rightly, so nothing was shown; stop other programs and try again"
    return ""
