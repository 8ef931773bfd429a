"""Templates of findings: `{name:form}` is a number, a subject or a reason of the finding, written in one form.

    [ … ]            is left out where a number in it is not known
    {share*100:.0f}  a number in another unit: times or divided by a constant
    {of|row}         a number, or what stands for one that is not known
    {=serving.lost}  what a function of this package makes of the finding
    {about}          the subject as tables call it; {subject}, {severity} and {because} are fields of the finding

A form is one of `FORMS` (a word for an amount, a count, a list), a unit (`s`, `bytes`, `nats 4`), a count of letters
(`60`: foreign text, cut), `1 row|{} rows` (one, or several), `~3` (three digits), or a format of Python (`,.1f`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from string import Formatter
from typing import Any

from twinlens.record.estimate import Estimate
from twinlens.record.finding import Finding
from twinlens.reporting.display import clean, clean_end, join_names
from twinlens.reporting.wording.number import how_often, named_by, number, percent, with_interval
from twinlens.units import BYTES, NATS, SECONDS, digits, show

Form = Callable[..., str]
"""A value as text."""
_MOST = 600


def filled(template: str, finding: Finding, more: Mapping[str, Form] | None = None) -> str:
    """The template with the finding's numbers; `more`: forms beside `FORMS`.

    Raises KeyError, TypeError or ValueError where the finding has other numbers.
    """
    forms = {**FORMS, **(more or {})}
    first, *parts = template.split("[")
    made = [_fields(first, finding, forms)]
    for optional, _, rest in (part.partition("]") for part in parts):
        made += [_if_known(optional, finding, forms), _fields(rest, finding, forms)]
    return "".join(made)


def holds(where: Iterable[str], finding: Finding) -> bool:
    """Whether a finding says what a text asks for: `lens=training`, or `accepted`, a number that must be known."""
    return all(_holds(*condition.partition("="), finding) for condition in where)


def _holds(name: str, is_value: str, wanted: str, finding: Finding) -> bool:
    try:
        value = _value(name, finding)
    except (KeyError, ValueError):
        return False
    said = str(value).lower() if isinstance(value, bool) else f"{value:g}" if isinstance(value, int | float) else value
    return said == wanted if is_value else True


def _if_known(part: str, finding: Finding, forms: Mapping[str, Form]) -> str:
    try:
        return _fields(part, finding, forms)
    except (KeyError, ValueError):
        return ""


def _fields(text: str, finding: Finding, forms: Mapping[str, Form]) -> str:
    made = []
    for words, name, form, _ in Formatter().parse(text):
        made += [words, "" if name is None else _field(finding, name, form or "", forms)]
    return "".join(made)


def _field(finding: Finding, name: str, form: str, forms: Mapping[str, Form]) -> str:
    if name.startswith("="):
        module, _, function = name[1:].rpartition(".")
        return str(getattr(import_module(f"twinlens.reporting.wording.{module}"), function)(finding))
    name, _, otherwise = name.partition("|")
    if otherwise and finding.numbers.get(name) is None:
        return otherwise
    factor_of, times, factor = name.partition("*")
    of, _, divisor = name.partition("/")
    if times:
        return _written(float(_value(factor_of, finding)) * float(factor), form, forms)
    return _written(float(_value(of, finding)) / float(divisor) if divisor else _value(name, finding), form, forms)


def _value(name: str, finding: Finding) -> Any:
    if name == "about":
        return named_by(finding)
    if name in ("subject", "severity"):
        return getattr(finding, name)
    if name == "because":
        if not finding.because:
            raise ValueError("nothing is said of why")
        return finding.because
    return number(finding, name) if name in finding.numbers else finding.evidence[name]


def _written(value: Any, form: str, forms: Mapping[str, Form]) -> str:
    word, _, rest = form.partition(" ")
    if not form or form.isdecimal():
        return clean(value, int(form or _MOST))
    if "|" in form:
        one, several = form.split("|")
        return one if value == 1 else several.format(value)
    if word in forms:
        return forms[word](value, *([int(rest)] if rest else []))
    if word in (SECONDS, BYTES, NATS):
        return show(float(value), word, *([int(rest)] if rest else []))
    return digits(float(value), int(form[1:])) if form.startswith("~") else format(value, form)


def _ends(estimate: Estimate) -> str:
    if estimate.low is None or estimate.high is None:
        raise ValueError("no interval")
    return f"{estimate.low:.0%} to {estimate.high:.0%}"


FORMS: dict[str, Form] = {
    "%": percent,
    "times": how_often,
    "two": lambda value: f"{value:.2g}" if value < 99.5 else f"{value:,.0f}",
    "count": lambda count: f"{int(count):,}",
    "and": " and ".join,
    "list": lambda names, most=99: join_names([str(name) for name in names], most),
    "end": clean_end,
    "first": lambda text: text[:1].upper() + text[1:],
    "quoted": repr,
    "toml": lambda value: str(value).lower() if isinstance(value, bool) else str(value),
    "span": with_interval,
    "ends": _ends,
}
"""Forms by their word; a number after it is an argument: `list 3` names the first three."""
