"""A probed machine as a device: what it measured stands above the datasheet of the same board."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from twinlens.errors import BadInput
from twinlens.spec.device import DenseRates, Device, find_device

UNUSABLE = "TL231"


def probed_device(probe: Mapping[str, Any]) -> Device:
    """The device that a probe's JSON tells of. `achieved_flop_per_s` and bandwidth are measured, of all threads.

    Raises BadInput (TL231) for what is no probe, and for one without memory or bandwidth.
    """
    facts, rows = probe.get("executor"), probe.get("ceilings")
    if not isinstance(facts, Mapping) or not isinstance(rows, Sequence):
        raise BadInput("this is no probe; write one with `twinlens probe --json > probe.json`", code=UNUSABLE)
    product = str(_value(facts, "accelerator.product") or "")
    base = find_device(product)
    memory = _value(facts, "accelerator.memory_bytes") or _host_memory(facts)
    bandwidth, rates = _best(rows, "read", "") or _best(rows, "copy", ""), _rates(rows)
    if not _is_amount(memory) or bandwidth is None:
        raise BadInput("the probe says no memory or no bandwidth; run `twinlens probe --json` again", code=UNUSABLE)
    own: dict[str, Any] = {
        "name": "this",
        "memory_visible_bytes": int(memory),
        "bandwidth_bytes_per_s": bandwidth,
        "achieved_flop_per_s": rates,
        "achieved_source": "twinlens probe",
        "source": f"twinlens probe of {product[:60] or 'a machine without a name'}",
    }
    if (link := _link(probe.get("collectives"))) is not None:
        rate, ranks = link
        own |= {"achieved_link_bytes_per_s": rate, "domain": max(ranks, base.domain if base else 1)}
    if base is not None:
        return base.model_copy(update=own)
    on_host = _value(facts, "accelerator.form_factor") == "processor"
    return Device(
        vendor=str(_value(facts, "accelerator.vendor") or "unknown")[:60],
        memory_bytes=int(memory),
        dense_flop_per_s=rates,
        form="processor" if on_host else None,
        **own,
    )


def _link(collectives: Any) -> tuple[float, int] | None:
    """Bus bandwidth of large all-reduces between GPUs, and how many took part; None where no fit of it holds.

    Ranks of one processor exchange through its memory, which is no link between devices.
    """
    if not isinstance(collectives, Mapping) or collectives.get("on_processor") is not False:
        return None
    fits, ranks = collectives.get("fits"), collectives.get("ranks")
    for fit in fits if isinstance(fits, Sequence) else ():
        if not isinstance(fit, Mapping) or fit.get("kind") != "all-reduce" or fit.get("refused") is not None:
            continue
        segments = fit.get("segments")
        last = segments[-1] if isinstance(segments, Sequence) and segments else None
        rate = last.get("bus_bytes_per_s") if isinstance(last, Mapping) else None
        value = rate.get("value") if isinstance(rate, Mapping) else None
        if isinstance(value, int | float) and _is_amount(value) and isinstance(ranks, int) and _is_amount(ranks):
            return float(value), ranks
    return None


def _host_memory(facts: Mapping[str, Any]) -> Any:
    limits = (_value(facts, "host.memory_bytes"), _value(facts, "host.cgroup.memory_limit_bytes"))
    return min((limit for limit in limits if _is_amount(limit)), default=None)


def _rates(rows: Sequence[Any]) -> DenseRates:
    """The best rate of large products in each format."""
    names = {"fp8": "fp8-e4m3"}
    found = {field: _best(rows, "matrix", names.get(field, field)) for field in DenseRates.model_fields}
    return DenseRates(**found)


def _best(rows: Sequence[Any], kind: str, number_format: str) -> float | None:
    values = [
        float(row["value"])
        for row in rows
        if isinstance(row, Mapping)
        and (row.get("kind"), row.get("format")) == (kind, number_format)
        and _is_amount(row.get("value"))
    ]
    return max(values, default=None)


def _value(facts: Mapping[str, Any], name: str) -> Any:
    fact = facts.get(name)
    return fact.get("value") if isinstance(fact, Mapping) else None


def _is_amount(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 1e30
