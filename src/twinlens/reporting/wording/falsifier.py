"""Falsifiers that were tried, in words: what was changed, what it gave, and what that says of the verdict."""

from __future__ import annotations

from twinlens.record.beside import GROWN
from twinlens.record.finding import Finding
from twinlens.reporting import display
from twinlens.reporting.display import clean
from twinlens.reporting.wording.number import number, numbers
from twinlens.units import digits

_SAYS = {
    "confirmed": "the verdict stands",
    "refuted": "the verdict, or a ceiling that it rests on, is wrong, and it is withdrawn",
    "undecided": "the interval holds both answers, so try again on a quieter machine",
}
_OF_TWO_CAUSES = {
    "confirmed": "fixed costs bind: it is latency-bound",
    "refuted": "time grows with the work: the kernels are below their ceilings",
}
_NOT_GROWN = "the server did not compute the added requests together, so its batch was not doubled"
_QUOTED = " The ratio is as falsifier.json quotes it: the runs that gave it are not beside this one."


def _tried(finding: Finding) -> str:
    path, before, after, ruling = numbers(finding, "path", "from", "to", "ruling")
    ratio = finding.evidence["ratio"]
    interval = display.factor_bounds(ratio) or "no interval"
    expected = _expected(finding)
    of_two = number(finding, "verdict") == "below-ceilings" and ruling in _OF_TWO_CAUSES
    says = _OF_TWO_CAUSES[ruling] if of_two else _SAYS[ruling]
    if (grown := finding.numbers.get("grown")) is not None:
        expected += f" with ×{digits(grown, 3)} the requests decoding together"
        says = _NOT_GROWN if ruling == "undecided" and grown < GROWN else says
    return (
        f"Tried: {clean(path, 60)} from {clean(before, 30)} to {clean(after, 30)} gave {display.factor(ratio)} "
        f"({interval}), {expected}: {'' if of_two else f'{_verdict(finding)} is {clean(ruling, 20)}; '}{says}."
        f"{_QUOTED if finding.numbers.get('quoted') else ''}"
    )


def _verdict(finding: Finding) -> str:
    return clean(number(finding, "verdict"), 40)


def _expected(finding: Finding) -> str:
    least, most = finding.numbers.get("at_least"), finding.numbers.get("at_most")
    if least is not None and most is not None:
        return f"and ×{digits(least, 3)} to ×{digits(most, 3)} was expected"
    if least is not None:
        return f"and ×{digits(least, 3)} or more was expected"
    return f"and at most ×{digits(most, 3)} was expected" if most is not None else "and nothing was expected"


SENTENCES = {"falsifier-tried": _tried}
