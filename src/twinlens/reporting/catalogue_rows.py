"""Rows of the catalogue: devices, links, models and prices in a line each, and one device or model with every field."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from twinlens.units import digits, show

Row = dict[str, Any]
_GIB = 2.0**30
ABSENT = "–"


def _devices(folder: Path | None) -> list[Row]:
    from twinlens.spec.catalogue import catalogue_of

    whole = catalogue_of(folder)
    rows = []
    for each in whole.devices:
        seen, link = each.memory_visible_bytes, whole.link_of(each)
        rows.append(
            {
                "device": each.name,
                "GB": f"{each.memory_bytes / 1e9:.4g}",
                "GiB": ABSENT if seen is None else f"{seen / _GIB:.4g}",
                "TB/s": digits(each.bandwidth_bytes_per_s / 1e12),
                "bf16": _tera(each.rate("bf16") or each.rate("fp16")),
                "fp8": _tera(each.rate("fp8")),
                "link": ABSENT if link is None else f"{link.one_way_bytes_per_s / 1e9:.3g}",
                "W": ABSENT if each.tdp_w is None else f"{each.tdp_w:.0f}",
                "?": "?" if each.uncertain or each.unverified else "",
            }
        )
    return rows


def _tera(rate: float | None) -> str:
    return ABSENT if rate is None else f"{rate / 1e12:.4g}"


def _device(name: str, folder: Path | None) -> list[Row]:
    from twinlens.spec.catalogue import catalogue_of
    from twinlens.spec.consistency import implied_clock_hz

    whole = catalogue_of(folder)
    each = whole.device(name)
    rows = [_field(key, value) for key, value in each.model_dump(mode="json").items() if value not in (None, [], ())]
    clock = implied_clock_hz(each)
    if clock is not None:
        rows.append({"field": "implied_clock_hz", "value": show(clock / 1e9, "GHz")})
    if link := whole.link_of(each):
        rows.append(_field("link_one_way_bytes_per_s", link.one_way_bytes_per_s))
        rows.append({"field": "link_source", "value": link.source})
    for price in whole.prices_of(name):
        rows.append({"field": f"price_{price.kind}", "value": _price_words(price)})
    return rows


def _price_words(price: Any) -> str:
    when = price.date or "no date"
    doubt = ", uncertain" if price.uncertain else ""
    return f"{_range(price)} {price.currency} ({when}{doubt}; {price.source})"


def _range(price: Any) -> str:
    """As quoted; a whole amount of thousands has no cents."""
    low, high = (f"{end:,.0f}" if end >= 1000 and end % 1 == 0 else f"{end:,f}" for end in (price.low, price.high))
    return low if price.low == price.high else f"{low} to {high}"


def _field(key: str, value: Any) -> Row:
    if isinstance(value, dict):
        known = {name: inner for name, inner in value.items() if inner is not None}
        text = ", ".join(f"{name} {_number(f'{key}.{name}', inner)}" for name, inner in known.items())
        return {"field": key, "value": text}
    if isinstance(value, list):
        return {"field": key, "value": ", ".join(map(str, value))}
    return {"field": key, "value": _number(key, value)}


def _number(key: str, value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    if "flop_per_s" in key:
        return show(value, "flop/s", 4)
    if key.endswith("bytes_per_s"):
        return show(value, "bytes/s")
    if key.endswith("_bytes"):
        return f"{value / 1e9:,.6g} GB ({value / _GIB:,.4g} GiB)"
    return f"{value:.12g}"


def _links(folder: Path | None) -> list[Row]:
    from twinlens.spec.catalogue import catalogue_of

    return [
        {
            "link": each.name,
            "one way": show(each.one_way_bytes_per_s, "bytes/s"),
            "between": {"device": "devices", "bus": "device and host", "network": "machines"}[each.kind],
            "topology": each.topology,
            "?": "?" if each.uncertain or each.unverified else "",
            "source": each.source,
        }
        for each in catalogue_of(folder).links
    ]


def _prices(folder: Path | None) -> list[Row]:
    from twinlens.spec.catalogue import catalogue_of

    return [
        {
            "device": each.device,
            "kind": each.kind,
            "price": f"{_range(each)} {each.currency}",
            "date": each.date or ABSENT,
            "?": "?" if each.uncertain else "",
        }
        for each in catalogue_of(folder).prices
    ]


def _models(folder: Path | None) -> list[Row]:
    from twinlens.spec.model.reference import list_models, load_model

    return [_model_row(load_model(name)) for name in list_models()] + [
        _model_row(ref) for ref in _own_models(folder).values()
    ]


def _own_models(folder: Path | None) -> dict[str, Any]:
    from twinlens.spec.catalogue import catalogue_of
    from twinlens.spec.model.reference import load_model

    models = catalogue_of(folder).models_folder
    if models is None:
        return {}
    files = sorted(models.glob("*.json"))
    return {file.stem: load_model(str(file)).model_copy(update={"name": file.stem}) for file in files}


def _model_row(ref: Any) -> Row:
    from twinlens.spec.model.shape import DecoderShape
    from twinlens.theory.memory import kv_bytes_per_token
    from twinlens.theory.parameter import parameters

    count, shape = parameters(ref.shape), ref.shape
    text = isinstance(shape, DecoderShape)
    return {
        "model": ref.name,
        "family": shape.family,
        "M parameters": digits(count.total / 1e6, 4),
        "M active": digits(count.active / 1e6, 4),
        "KV KiB/token": f"{kv_bytes_per_token(shape) / 1024:,.4g}" if text else ABSENT,
        "context": f"{shape.max_context:,}" if text else ABSENT,
    }


def _model(name: str, folder: Path | None) -> list[Row]:
    from twinlens.spec.model.reference import load_model

    own = _own_models(folder)
    ref = own[name] if name in own else load_model(name)
    rows = [{"field": key, "value": value} for key, value in _model_row(ref).items()]
    rows += [_field(key, value) for key, value in ref.shape.model_dump(mode="json").items() if value is not None]
    return [*rows, {"field": "source", "value": ref.source}]


CATALOGUE_ROWS: dict[str, Callable[[Path | None], list[Row]]] = {
    "models": _models,
    "devices": _devices,
    "links": _links,
    "prices": _prices,
}
FIELDS_OF: dict[str, Callable[[str, Path | None], list[Row]]] = {"devices": _device, "models": _model}
"""Kinds whose entries have more fields than a line holds."""
