"""Claims on money and energy: per token, per request, per month, and per joule."""

from __future__ import annotations

from collections.abc import Mapping

from twinlens.claims.answer import Answer, Case, Gap, Term, assumed, lacking, solved
from twinlens.claims.said import Claim, Said, part_of_whole
from twinlens.theory.energy import energy_each_j

_HOUR_S = 3600.0
_DAYS_A_MONTH = 30.0


def price_per_token(claim: Claim) -> Answer | Gap | None:
    """ "$2.50 an hour at 1000 tok/s is $0.70 per million tokens": price of an hour over the tokens of an hour."""
    claimed, hour = claim.one("price_token"), claim.value("price_hour")
    if claimed is None:
        return None
    rate, many = claim.value("rate"), claim.value("devices") or 1.0
    if hour is None or rate is None:
        return Gap("price-per-token", lacking({"price-per-hour": hour, "rate": rate}))
    terms = (Term("price-per-hour", hour, "$/h"), Term("devices", many, "devices"), Term("rate", rate, "tokens/s"),
             Term("hour", _HOUR_S, "s"))  # fmt: skip
    needed = solved("price-per-token", "$/token", claimed.value, {"rate": hour * many / _HOUR_S / claimed.value})
    return Answer(
        "price-per-token", "$/token", claimed, (Case(hour * many / rate / _HOUR_S, terms, "{0} × {1} / ({2} × {3})"),),
        missing=("utilisation",), solutions=(needed,),
    )  # fmt: skip


def monthly_bill(claim: Claim) -> Answer | Gap | None:
    """ "1 cent a use and 1M daily users is $300k a month": price times uses times 30 days."""
    claimed, each = claim.one("cost_month"), claim.value("cost_each")
    if claimed is None or "break-even" in claim.topics or claim.all("price_hour"):
        return None
    people, uses = claim.value("people"), claim.value("uses")
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


def amortised(claim: Claim) -> Answer | Gap | None:
    """ "$100M of training over 1e9 requests is 10 cents a request"."""
    claimed, spent = claim.one("cost_each"), claim.value("money")
    if claimed is None or not (claim.all("requests") or claim.topics & {"amortised", "training"}):
        return None
    requests = claim.value("requests")
    if spent is None or requests is None:
        return Gap("cost-per-request", lacking({"money": spent, "requests": requests}))
    terms = (Term("money", spent, "$"), Term("requests", requests, "requests"))
    return Answer(
        "cost-per-request", "$", claimed, (Case(spent / requests, terms, "{0} / {1}"),),
        solutions=(solved("cost-per-request", "$", claimed.value, {"requests": spent / claimed.value}),),
    )  # fmt: skip


def energy_per_token(claim: Claim) -> Answer | Gap | None:
    """ "700 W at 1000 tok/s is 0.7 J per token", or 1.43 tokens per joule: mean power over rate, or its inverse."""
    inverse = claim.one("tokens_per_j")
    claimed = inverse or claim.one("j_per_token")
    if claimed is None:
        return None
    power, rate, many = claim.value("power"), claim.value("rate"), claim.value("devices") or 1.0
    if power is None or rate is None:
        return Gap("tokens-per-joule" if inverse else "energy-per-token", lacking({"power": power, "rate": rate}))
    each = float(energy_each_j(power * many, rate))
    terms = (Term("rate", rate, "tokens/s"), Term("power", power * many, "w"))
    case = Case(1 / each, terms, "{0} / {1}") if inverse else Case(each, terms, "{1} / {0}")
    wanted = power * many * claimed.value if inverse else power * many / claimed.value
    quantity, unit = ("tokens-per-joule", "tokens/J") if inverse else ("energy-per-token", "j/token")
    needed = solved(quantity, unit, claimed.value, {"rate": wanted})
    return Answer(quantity, unit, claimed, (case,), missing=("host-power",), solutions=(needed,))


def energy_share(claim: Claim) -> Answer | Gap | None:
    """ "Energy is half of the cost: 1.37 kW, $0.10/kWh, $37500 over 4 years": an hour of each."""
    claimed: Said | None = part_of_whole(claim.one("share")) if "energy" in claim.topics else None
    if claimed is None and "half" in claim.topics:
        claimed = Said("share", 0.5, 0.5, "half")
    if claimed is None or "energy" not in claim.topics:
        return None
    power, kwh, hour = claim.value("power"), claim.value("price_kwh"), claim.value("price_hour")
    price, life = claim.value("money"), claim.value("time")
    capital = hour if hour is not None else price / (life / _HOUR_S) if price and life else None
    wanted: Mapping[str, float | None] = {"power": power, "price-per-kwh": kwh, "price-and-life": capital}
    if power is None or kwh is None or capital is None:
        return Gap("energy-share", lacking(wanted))
    energy = power / 1000 * kwh
    terms = (Term("energy-per-hour", energy, "$/h"), Term("capital-per-hour", capital, "$/h"))
    case = Case(energy / (energy + capital), terms, "{0} / ({0} + {1})")
    share = min(claimed.value, 0.999)
    needed = solved("energy-share", "share", share, {"price_kwh": share / (1 - share) * capital / (power / 1000)})
    return Answer("energy-share", "share", claimed, (case,), solutions=(needed,))
