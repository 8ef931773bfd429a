"""The question of `plan cost` and `plan roi`: machine, speed and money. An amount says what it is per: "3 USD/h"."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from twinlens.api.plan.reading.options import (
    FILE,
    MONEY,
    RUN,
    Catalogue,
    Device,
    Engine,
    Model,
    Precision,
)
from twinlens.api.question import Kind, Question, option

PAID = ("buy", "rent", "reserved", "api", "energy", "fixed", "residual")
"""Fields that are prices."""
_COUNT, _TIME, _TIMES, _WATTS = Kind("COUNT"), Kind("TIME"), Kind("TIMES"), Kind("WATTS")


class Paid(Question):
    model: Model | None = None
    device: Device | None = None
    devices: Annotated[str, option("How many of them.", _COUNT)] | None = None
    precision: Precision | None = None
    tensor: Annotated[str, option("Devices that share each layer.", _COUNT)] | None = None
    engine: Engine | None = None
    ttft: Annotated[str, option("Target: 500ms, 2s.", _TIME)] | None = None
    tpot: Annotated[str, option("Target: 50ms is 20 tokens/s.", _TIME)] | None = None
    of: Annotated[str, option("What keeps a target: p99 or mean.", Kind("WHAT"))] | None = None
    throughput: Annotated[str, option("Within the SLO, all devices: '4 requests/s'.", Kind("RATE"))] | None = None
    like: Annotated[Path, option("A measured run: its goodput.", RUN)] | None = None
    input_tokens: Annotated[str, option("Of a request.", _COUNT, "--input-tokens", "--prompt")] | None = None
    output_tokens: Annotated[str, option("Of a request.", _COUNT, "--output-tokens", "--answer")] | None = None
    rent: Annotated[str, option("Of an hour of one device: '3 USD/h'.", MONEY)] | None = None
    reserved: Annotated[str, option("With a commitment: '2 USD/h'.", MONEY)] | None = None
    buy: Annotated[str, option("One device with its host: '37500 USD'.", MONEY)] | None = None
    api: (
        Annotated[str, option("'0.01 USD/request', '3 USD/M input tokens + 15 USD/M output tokens'.", MONEY)] | None
    ) = None
    prices: Annotated[Path, option("TOML: [rent] price, date, source; [buy] … (explain cost).", FILE)] | None = None
    residual: Annotated[str, option("What is got back at the end.", MONEY)] | None = None
    fixed: Annotated[str, option("Space, people: '250 USD/month'.", MONEY)] | None = None
    energy: Annotated[str, option("'0.12 USD/kWh'.", MONEY)] | None = None
    power: Annotated[str, option("Of one device under load: 700W.", _WATTS)] | None = None
    idle_power: Annotated[str, option("Of one device that waits: 75W.", _WATTS)] | None = None
    host: Annotated[str, option("Power with the host, over the device's: 1.5.", _TIMES)] | None = None
    pue: Annotated[str, option("Power of the building over that: 1.3.", _TIMES)] | None = None
    busy: Annotated[str, option("Of the hours, those that serve: 40%.", Kind("SHARE"))] | None = None
    catalogue: Catalogue | None = None
