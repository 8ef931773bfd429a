"""The sentences of a cost, on screen and page alike: whole machines at the stated load first, then a full machine."""

from __future__ import annotations

from collections.abc import Iterator

from twinlens.planning.cost.answer import Cost
from twinlens.planning.cost.machine import Machine
from twinlens.planning.cost.volume import Month
from twinlens.reporting.wording.amount import amount, money_words
from twinlens.theory.figure import Figure
from twinlens.units import digits

_WAYS = {"buy": "bought", "rent": "rented", "reserved": "reserved"}


def cost_words(answer: Cost) -> list[str]:
    """A month at the stated load, with the share of its hours that serves; then a request where every hour is full."""
    return [*_month(answer), *_request(answer)]


def shown(figure: Figure | None) -> str:
    """A value with its unit, or a dash."""
    return "–" if figure is None or figure.value is None else amount(float(figure.value), figure.unit)


def _month(answer: Cost) -> Iterator[str]:
    month, machine = answer.month, answer.machine
    if month is None:
        return
    costs = f"A month of {month.users:,} users costs {_money(month.bill)}"
    if machine is None:
        yield f"{costs}."
        return
    yield f"{costs}: {_machines(month, machine)}, busy {100 * month.duty.number if month.duty else 0:.2g} % of it."
    if month.request is not None:
        yield f"A request at that load costs {_money(month.request)}."


def _machines(month: Month, machine: Machine) -> str:
    many = int(month.machines.value or 0) if month.machines else 0
    each = f" of {machine.devices} devices" if machine.devices > 1 else ""
    return f"{many:,} machine{'s' if many > 1 else ''}{each}, {_WAYS[machine.way]} and paid all month"


def _request(answer: Cost) -> Iterator[str]:
    request, machine, share = answer.each.total, answer.machine, answer.energy_share
    if machine is None:
        yield f"A request costs {_money(request)} behind an API."
        return
    energy = "" if share is None else f", {digits(100 * float(share.value or 0), 2)} % of it energy"
    load = "At full load" if machine.busy == 1 else f"Busy {100 * machine.busy:.3g} % of its hours"
    many = f"{machine.devices} devices" if machine.devices > 1 else "one device"
    rate = answer.traffic.throughput
    within = " within the SLO" if _is_within(rate) else ", whatever the latency"
    yield f"{load} a request costs {_money(request)}{energy}: {many} {_WAYS[machine.way]}, {_rate(rate)}{within}."


def _rate(rate: Figure | None) -> str:
    """ "9.79 requests/s (4.31 to 13.2, predicted)": with its band, and whether anybody measured it."""
    if rate is None or rate.value is None:
        return shown(rate)
    ends = [None if end is None else digits(float(end)) for end in (rate.low, rate.high)]
    band = f"{ends[0]} to {ends[1]}" if all(ends) else ""
    kind = "predicted" if rate.name == "throughput" and rate.source.startswith("predicted") else ""
    told = ", ".join(filter(None, (band, kind)))
    return shown(rate) + (f" ({told})" if told else "")


def _is_within(rate: Figure | None) -> bool:
    """Whether nothing is known against it: a run without an SLO has a rate all the same."""
    return rate is None or all(note.subject != "like-without-slo" for note in rate.all_assumptions())


def _money(figure: Figure) -> str:
    """ "$117 ($28.00 to $7,018, 90 %)": an amount and its band."""
    currency = figure.unit.partition("/")[0]
    value = money_words(float(figure.value or 0), currency)
    low, high = (None if end is None else money_words(float(end), currency) for end in (figure.low, figure.high))
    level = "" if figure.level is None else f", {100 * figure.level:.0f} %"
    if (low is None and high is None) or low == high == value:
        return value
    if low and high:
        return f"{value} ({low} to {high}{level})"
    return f"{value} (from {low}{level}, with no upper end)" if low else f"{value} (up to {high})"
