"""Sentences on steadiness: reasons of labels as clauses, and findings inside the steady window."""

from __future__ import annotations

from twinlens.record.finding import Finding
from twinlens.reporting.wording.number import how_often, number, numbers, percent
from twinlens.units import digits


def _rows(finding: Finding) -> str:
    """The unit of the test, in the plural: rows, requests, or points of several requests."""
    return f"{finding.numbers.get('of', 'row')}s"


def _row_time(finding: Finding) -> str:
    return "latency per token" if "of" in finding.numbers else "row time"


def _ends(finding: Finding, clause: str) -> str:
    """The clause with what a served run adds: requests per point, and failures before the window."""
    size, failed = finding.numbers.get("requests_per_point", 1), finding.numbers.get("failed_before", 0)
    clause = f"{clause} (a point is {size} requests)" if size > 1 else clause
    return f"{clause}; of the {number(finding, 'before')} requests before it {failed} failed" if failed else clause


def _shortage(finding: Finding, where: str) -> str:
    """ "only 12 rows after the start; at least 20 are needed" """
    have, need = numbers(finding, "have", "need")
    if number(finding, "unit") == "s":
        return f"only {have:.3g} s {where}; at least {need:g} s are needed"
    return f"only {have} {_rows(finding)} {where}; at least {need} are needed"


def _too_short(finding: Finding) -> str:
    return _shortage(finding, f"after the start, of {number(finding, 'rows')} {_rows(finding)}")


def _level_too_short(finding: Finding) -> str:
    row = finding.numbers.get("of", "row")
    return _shortage(finding, f"in the level that begins at {row} {number(finding, 'row')}")


def _cyclic(finding: Finding) -> str:
    swing, rows = numbers(finding, "swing", "rows")
    return f"{_row_time(finding)} swings by {100 * swing:.3g} % about every {rows} {_rows(finding)}"


def _no_level(finding: Finding) -> str:
    return f"no level holds for {100 * number(finding, 'share'):.0f} % of the {_rows(finding)}"


def _wanders(finding: Finding) -> str:
    independent, error = numbers(finding, "independent", "error")
    return (
        f"{_row_time(finding)} changes slowly: the window holds only {_two(independent)} independent values, so the "
        f"standard error of its mean is {_two(100 * error)} %"
    )


def _two(value: float) -> str:
    """Two digits, and no exponent for hundreds."""
    return f"{value:.2g}" if value < 99.5 else f"{value:,.0f}"


def _unproven(finding: Finding) -> str:
    seen = f"no change showed in {number(finding, 'rows')} {_rows(finding)}"
    visible = finding.numbers.get("least_visible_change")
    if visible is None:
        return f"{seen}, but they are too few for a slope, since they depend on each other"
    return f"{seen}, but a change of less than {_two(100 * visible)} % could be missed"


def _level(finding: Finding) -> str:
    rows, begin, visible = numbers(finding, "rows", "begin", "least_visible_change")
    sure = f"a change of {_two(100 * visible)} % would have shown"
    if begin == 0:
        return f"one level over all {rows} {_rows(finding)}: {sure}"
    return f"one level from {finding.numbers.get('of', 'row')} {begin} on, {rows} {_rows(finding)} long: {sure}"


def _slowdown(finding: Finding) -> str:
    begin, longer, first, last = numbers(finding, "begin", "longer", "first", "last")
    return f"{_rows(finding)} from {begin} on take {100 * longer:.3g} % longer than {first} to {last} did"


def _drift(finding: Finding) -> str:
    change = finding.evidence.get("change")
    if change is None or change.value is None or change.low is None or change.high is None:
        return f"{_row_time(finding)} follows a line rather than a level"
    word = "grows" if change.value > 0 else "falls"
    bounds = f"({100 * change.low:+.3g} to {100 * change.high:+.3g} %)"
    return f"{_row_time(finding)} {word} by {100 * abs(change.value):.3g} % {bounds} and has not levelled"


def _left_its_level(finding: Finding) -> str:
    count, effect, factor, first, last = numbers(finding, "count", "effect", "factor", "first", "last")
    rows = f"{_rows(finding)} {first} to {last} take {factor:.3g} times as long"
    return f"the run left its level {how_often(count)}: {rows}, which changes the figure by {100 * effect:+.2g} %"


def _stood_still(finding: Finding) -> str:
    count, share, longest_s, begin_s = numbers(finding, "count", "share", "longest_s", "begin_s")
    return (
        f"the server stood still {how_often(count)}, for {percent(share)} of the window: no chunk came for "
        f"{digits(longest_s)} s from {digits(begin_s)} s on, with requests in flight"
    )


def _disturbed(finding: Finding) -> str:
    count, share, effect, factor, begin_s, end_s = numbers(
        finding, "count", "share", "effect", "factor", "begin_s", "end_s"
    )
    return (
        f"The run left its level {how_often(count)}, for {percent(share)} of the window: from {digits(begin_s)} to "
        f"{digits(end_s)} s its work took {digits(factor)} times as long. The figures include this time, which changes "
        f"them by {percent(effect)}."
    )


def _change_unseen(finding: Finding) -> str:
    visible = percent(number(finding, "least_visible_change"))
    return f"The run is steady, but a change of less than {visible} could be missed."


def _extended(finding: Finding) -> str:
    count, asked, lasted = numbers(finding, "times", "asked_s", "lasted_s")
    return (
        f"The run had not settled after {digits(asked)} s and was doubled {how_often(count)}, to {digits(lasted)} s: "
        "its length depended on the data."
    )


def _rows_scatter(finding: Finding) -> str:
    cv, limit = (percent(value) for value in numbers(finding, "cv", "limit"))
    return f"Row times scatter by {cv} of their mean; a quiet machine stays below {limit}."


def _retaken(finding: Finding) -> str:
    attempt = number(finding, "attempt")
    before = "attempt" if attempt == 2 else "attempts"
    return f"Attempt {attempt}: other programs disturbed the {before} before; all attempts are kept."


def _given_twice(finding: Finding) -> str:
    count = number(finding, "runs")
    counted = "1 run was" if count == 1 else f"{count} runs were"
    return f"{counted} given more than once (a copy, or a folder and its child), and each counts once."


CLAUSES = {
    "no-rows": lambda finding: "there are no rows",
    "too-short": lambda finding: _ends(finding, _too_short(finding)),
    "level-too-short": lambda finding: _ends(finding, _level_too_short(finding)),
    "cyclic": lambda finding: _ends(finding, _cyclic(finding)),
    "no-level": lambda finding: _ends(finding, _no_level(finding)),
    "wanders": lambda finding: _ends(finding, _wanders(finding)),
    "unproven": lambda finding: _ends(finding, _unproven(finding)),
    "flat": lambda finding: _ends(finding, _level(finding)),
    "warm-up": lambda finding: _ends(finding, _level(finding)),
    "slowdown": lambda finding: _ends(finding, _slowdown(finding)),
    "drift": lambda finding: _ends(finding, _drift(finding)),
    "stood-still": _stood_still,
    "left-its-level": lambda finding: _ends(finding, _left_its_level(finding)),
}
SENTENCES = {
    "disturbed": _disturbed,
    "change-unseen": _change_unseen,
    "extended": _extended,
    "rows-scatter": _rows_scatter,
    "retaken": _retaken,
    "given-twice": _given_twice,
}
