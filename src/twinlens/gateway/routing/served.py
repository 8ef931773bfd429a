"""Backends that a model's name stands for: a model, a backend, an alias with its constraints, or `auto`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from twinlens.errors import nearest
from twinlens.gateway.backend import Backend, Price, price_of
from twinlens.gateway.refusal import Refusal
from twinlens.gateway.settings import AliasSettings

AUTO = "auto"


@dataclass(frozen=True, slots=True)
class Named:
    """`places`: of the backends that may answer; `out`: why each other one that the name stands for may not."""

    places: tuple[int, ...]
    out: tuple[tuple[str, str], ...] = ()


def named(model: str, backends: Sequence[Backend], aliases: Sequence[AliasSettings]) -> Named:
    """The backends that a name stands for.

    A backend that has not said which model it serves is asked for any that nobody else serves. Raises Refusal: 404 for
    a name that nobody has, with the nearest; 503 where no backend meets the constraints of an alias, with the reason
    of each.
    """
    alias = next((each for each in aliases if each.name == model), None)
    if alias is not None:
        return _of_alias(alias, backends)
    everywhere = tuple(range(len(backends)))
    if model in ("", AUTO):
        return Named(everywhere)
    found = tuple(place for place, each in enumerate(backends) if model in (each.model, each.name))
    if not found:
        found = tuple(place for place, each in enumerate(backends) if not each.model)
    if not found:
        known = sorted({name for each in backends for name in (each.model, each.name)} | {a.name for a in aliases})
        sentence = f"nobody here serves a model {model[:80]!r}; {nearest(model, known)}"
        raise Refusal(404, sentence, param="model", code="model_not_found")
    return Named(found)


def _of_alias(alias: AliasSettings, backends: Sequence[Backend]) -> Named:
    places: list[int] = []
    out: list[tuple[str, str]] = []
    for place, each in enumerate(backends):
        if alias.backends and each.name not in alias.backends:
            continue
        why = _unfit(alias, each)
        if why:
            out.append((each.name, why))
        else:
            places.append(place)
    if not places:
        told = "; ".join(f"{name}: {why}" for name, why in out[:8])
        raise Refusal(503, f"no backend meets what {alias.name!r} asks for: {told}", param="model")
    return Named(tuple(places), tuple(out))


def _unfit(alias: AliasSettings, backend: Backend) -> str:
    """Why a backend does not meet the constraints; "" where it does. What was never evaluated is not known to do."""
    for score, least in alias.least_quality.items():
        value = backend.quality.get(score)
        if value is None:
            return f"its {score} was never evaluated"
        if value < least:
            return f"its {score} is {value:g}, below {least:g}"
    most = alias.most_usd_per_million
    if most is not None:
        cost = cost_of(backend, "USD")
        if cost is None:
            return "what one of its tokens costs in USD is not known"
        if (million := float(cost.output) * 1e6) > most:
            return f"a million of its output tokens cost {million:.3g} USD, above {most:g}"
    return ""


def cost_of(backend: Backend, currency: str) -> Price | None:
    """Money of one of its tokens; None where price, currency or rate are not known, or where the rate is that
    of a server which is not the one measured."""
    said = backend.token_price or backend.price
    if said is None or said[1] != currency or (backend.token_price is None and not backend.predicts):
        return None
    return price_of(backend)
