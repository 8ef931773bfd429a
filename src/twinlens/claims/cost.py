"""Claims on money that no single product gives: bills of users, energy in a cost, break-even, and useful hours.

Power, its price and fixed costs that a claim does not say are not 0: without them an answer is a bound.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from twinlens.claims.said import (
    Answer,
    Case,
    Gap,
    Said,
    Term,
    View,
    assumed,
    lacking,
    part_of_whole,
    solved,
    terms_of,
    worked,
)
from twinlens.record.finding import Finding
from twinlens.theory.law import LAWS
from twinlens.units import HOUR_S, HOURS_A_MONTH, MONTH_S

_DAYS_A_MONTH = 30.0


@dataclass(frozen=True, slots=True)
class Running:
    """Cost of an hour beside the price: what is said of it, and what is not said and so may only add to it."""

    per_hour: float
    missing: tuple[str, ...]
    is_bound: bool
    """Whether it is the least that an hour may cost: not even power is said."""

    @property
    def term(self) -> tuple[Term, ...]:
        return (Term("own-per-hour", self.per_hour, "$/h"),) if self.per_hour else ()


def _running(view: View, hours_a_month: float | None) -> Running:
    power, kwh, fixed = view.value("power"), view.value("price_kwh"), view.value("cost_month")
    needed = {"power": power, "price-per-kwh": kwh, "fixed-costs": fixed}
    energy = power / 1000 * kwh if power is not None and kwh is not None else 0.0
    each = fixed / hours_a_month if fixed is not None and hours_a_month else 0.0
    return Running(energy + each, lacking(needed), power is None or kwh is None)


def break_even(view: View) -> Answer | Gap | None:
    """ "A $37500 GPU pays for itself in 6-14 months at 8 h a day against $3/h": price over what an hour saves."""
    claimed = view.one("time") if view.says("break-even") else None
    if claimed is None:
        return None
    price, rented, daily = view.value("money"), view.value("price_hour"), view.value("hours_day")
    daily = 24.0 if daily is None and "hour" in claimed.text else daily  # hours of use
    if price is None or rented is None or daily is None:
        return Gap("break-even", lacking({"money": price, "price-per-hour": rented, "hours-per-day": daily}))
    hours = daily * HOURS_A_MONTH / 24
    own = _running(view, hours)
    if rented <= own.per_hour:
        return Gap("break-even", ("saving",))
    given = terms_of(Term("money", price, "$"), Term("price-per-hour", rented, "$/h"),
                     Term("hours-per-month", hours, "h"), *own.term)  # fmt: skip
    months = worked("break-even", given)
    case = replace(months, value=months.value * MONTH_S)
    return Answer(
        "break-even", "s", claimed, (case,), bound="at-least" if own.is_bound else "same",
        missing=own.missing, solutions=tuple(_paid_in(claimed, price, hours, rented, own)),
        is_open=own.is_bound and claimed.range[1] >= case.value,
    )  # fmt: skip


def _paid_in(claimed: Said, price: float, hours: float, rented: float, own: Running) -> Iterator[Finding]:
    """The rented prices that the claim asks for, and what an own hour may cost beside the price of the machine."""
    low, high = (price / (end / MONTH_S) / hours for end in (claimed.high or 0.0, claimed.low or 0.0))
    yield solved(
        "break-even", "s", claimed.value, {"price_hour": low + own.per_hour, "price_hour_high": high + own.per_hour}
    )
    if rented > low and own.is_bound:
        yield solved("break-even", "s", claimed.value, {"own_hour": rented - low})


def useful_hour(view: View) -> Answer | Gap | None:
    """ "An H100 costs $0.90-1.40 per useful hour at 70 % utilisation, $30k over 36 months": price over busy hours."""
    claimed = view.one("price_useful")
    if claimed is None:
        return None
    price, life, busy = view.value("money"), view.value("time"), view.value("share")
    part_of_whole(view.one("share"))
    if price is None or life is None:
        return Gap("price-per-hour", lacking({"price-and-life": None, "utilisation": busy}))
    used, hours = busy or 1.0, life / HOUR_S
    own = _running(view, HOURS_A_MONTH * used)
    given = terms_of(
        Term("money", price, "$"), Term("hours", hours, "h"), Term("utilisation", used, "share"), *own.term
    )
    case = worked("price-per-useful-hour", given)
    case = replace(case, terms=tuple(Term("life", life, "s") if each.name == "hours" else each for each in case.terms))
    left = max(0.0, claimed.value - own.per_hour)
    solutions = [solved("price-per-hour", "$/h", claimed.value, {"money": left * hours * used})] if left else []
    if left and (share := price / hours / left) <= 1:
        solutions.append(solved("price-per-hour", "$/h", claimed.value, {"share": share}))
    is_least = own.is_bound or busy is None
    return Answer(
        "price-per-hour", "$/h", claimed, (case,), bound="at-least" if is_least else "same",
        missing=(*own.missing, *lacking({"utilisation": busy})), solutions=tuple(solutions),
        is_open=is_least and claimed.range[1] >= case.value,
    )  # fmt: skip


def monthly_bill(view: View) -> Answer | Gap | None:
    """ "1 cent a use and 1M daily users is $300k a month": price times uses times 30 days."""
    claimed, each = view.one("cost_month"), view.value("cost_each")
    if each is None and not view.peek("devices"):
        each = view.value("price_device")  # "$0.002 each", said of requests
    if claimed is None or view.says("break-even") or view.peek("price_hour"):
        return None
    people, uses = view.value("people"), view.value("uses")
    if each is None or (people is None and uses is None):
        return Gap("monthly-bill", lacking({"cost-each": each, "uses-per-day": people or uses}))
    daily = uses if people is None else people * (uses or 1.0)
    terms = (
        Term("cost-each", each, "$"),
        Term("uses-per-day", daily or 0.0, "uses"),
        Term("days", _DAYS_A_MONTH, "days"),
    )
    value = each * (daily or 0.0) * _DAYS_A_MONTH
    once = (assumed("uses-per-user", "1"),) if people is not None and uses is None else ()
    return Answer(
        "monthly-bill", "$", claimed, (Case(value, terms, "{0} × {1} × {2}"),), assumed=once,
        missing=("retries-and-cache",),
        solutions=(solved("monthly-bill", "$", claimed.value, {"cost_each": each * claimed.value / value}),),
    )  # fmt: skip


def energy_share(view: View) -> Answer | Gap | None:
    """ "Energy is half of the cost: 1.37 kW, $0.10/kWh, $37500 over 4 years": an hour of each."""
    claimed: Said | None = part_of_whole(view.one("share")) if view.says("energy") else None
    if claimed is None and view.says("half"):
        claimed = Said("share", 0.5, 0.5, "half")
    if claimed is None or not view.says("energy"):
        return None
    power, kwh, hour = view.value("power"), view.value("price_kwh"), view.value("price_hour")
    price, life = view.value("money"), view.value("time")
    capital = hour if hour is not None else price / (life / HOUR_S) if price and life else None
    wanted: Mapping[str, float | None] = {"power": power, "price-per-kwh": kwh, "price-and-life": capital}
    if power is None or kwh is None or capital is None:
        return Gap("energy-share", lacking(wanted))
    of_capital = Term("capital-per-hour", capital, "$/h")
    case = worked("energy-share", terms_of(Term("energy-per-hour", power / 1000 * kwh, "$/h"), of_capital))
    share = min(claimed.value, 0.999)
    wanted_per_hour = LAWS["energy-share"].inverse("energy-per-hour", share, {"capital-per-hour": capital}) or 0.0
    needed = solved("energy-share", "share", share, {"price_kwh": wanted_per_hour / (power / 1000)})
    return Answer("energy-share", "share", claimed, (case,), solutions=(needed,))
