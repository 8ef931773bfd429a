"""Keywords of the verbs, made from their questions by `make reference`."""

from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, TypedDict

class BurninWords(TypedDict, total=False):
    for_: float | str | None
    criteria: str | None
    since: str | Path | None
    turn: float | str | None
    window: float | str | None
    rest: str | None
    out: str | Path | None
    fresh: bool | None

class CheckWords(TypedDict, total=False):
    set_: str | Sequence[str] | None
    at: str | Sequence[str] | None

class ClaimWords(TypedDict, total=False):
    says: str | None
    model: str | None
    precision: str | None
    kv: str | None
    batch: int | str | None
    users: int | str | None
    context: int | str | None
    device: str | None
    devices: int | str | None
    bandwidth: str | None

class CompareWords(TypedDict, total=False):
    metric: str | None

class DemoWords(TypedDict, total=False):
    fresh: bool | None

class EvidenceWords(TypedDict, total=False):
    name: str | None
    organisation: str | None
    contact: str | None
    role: str | None
    key: str | Path | None

class HistoryWords(TypedDict, total=False):
    metric: str | None

class LedgerWords(TypedDict, total=False):
    price_per_hour: float | None
    per_month: float | None

class ListWords(TypedDict, total=False):
    out: str | Path | None

class MeasureWords(TypedDict, total=False):
    url: str | None
    model: str | None
    key_env: str | None
    at: str | Sequence[str] | None
    set_: str | Sequence[str] | None
    quick: bool | None
    fresh: bool | None
    on: str | None

class NewWords(TypedDict, total=False):
    url: str | None
    model: str | None
    key_env: str | None
    at: str | Sequence[str] | None
    set_: str | Sequence[str] | None

class ProbeWords(TypedDict, total=False):
    collectives: bool | None
    ranks: int | str | None

class ShowWords(TypedDict, total=False):
    whole: bool | None

class SimulateWords(TypedDict, total=False):
    like: str | Sequence[Any] | None
    law: str | Path | None
    device: str | None
    devices: int | str | None
    set_: str | Sequence[str] | None
    replicas: str | None
    routing: str | None
    signal_age: str | None
    at: str | Sequence[str] | None
    with_: str | None
    day: str | None
    batching: str | None
    pools: str | None
    link: str | None
    failing: str | None
    slow: float | str | None
    price: Decimal | str | None
    seeds: int | str | None
    dry: bool | None
    out: str | Path | None

class SiteWords(TypedDict, total=False):
    signers: str | Path | None

class TuneWords(TypedDict, total=False):
    set_: str | Sequence[str] | None
    fresh: bool | None

class PlanFitWords(TypedDict, total=False):
    device: str | None
    devices: int | str | None
    pipeline: int | str | None
    probe: str | Path | None
    like: str | Path | None
    catalogue: str | Path | None
    users: int | str | None
    context: int | str | None
    precision: str | None
    kv: str | None
    runtime: str | None
    max_sequences: int | str | None
    groups: int | str | None
    beside: str | None
    train: str | None
    optimizer: str | None
    layout: str | None
    batch: int | str | None
    recompute: str | None
    loss: str | None
    rank: int | str | None
    zero: str | None
    tensor: int | str | None
    expert: int | str | None

class PlanCostWords(TypedDict, total=False):
    model: str | None
    device: str | None
    devices: int | str | None
    precision: str | None
    tensor: int | str | None
    engine: str | None
    ttft: float | str | None
    tpot: float | str | None
    of: str | None
    like: str | Path | None
    input_tokens: float | str | None
    output_tokens: float | str | None
    rent: str | None
    reserved: str | None
    buy: str | None
    api: str | None
    prices: str | Path | None
    residual: str | None
    fixed: str | None
    energy: str | None
    power: float | str | None
    idle_power: float | str | None
    host: float | str | None
    pue: float | str | None
    busy: float | str | None
    catalogue: str | Path | None
    way: str | None
    life: float | str | None
    output_weight: float | str | None
    retries: float | str | None
    hits: float | str | None
    users: int | str | None
    uses: float | str | None
    days: float | str | None
    revenue: str | None
    training: str | None
    training_hours: float | str | None
    requests: int | str | None
    carbon: float | str | None
    carbon_source: str | None

class PlanChooseWords(TypedDict, total=False):
    training: float | str | None
    inference: float | str | None
    users: int | str | None
    context: int | str | None
    answer: int | str | None
    speed: float | str | None
    ttft: float | str | None
    precision: str | None
    train: str | None
    training_model: str | None
    training_precision: str | None
    sequences: int | str | None
    length: int | str | None
    tokens: float | str | None
    within: float | str | None
    duty: float | str | None
    ecc: bool | None
    datacentre: bool | None
    on_premise: bool | None
    compliance: str | None
    power: float | str | None
    most_devices: int | str | None
    among_devices: str | None
    probe: str | Path | None
    like: str | Path | None
    beside: str | None
    known: str | Path | None
    catalogue: str | Path | None

class PlanCapacityWords(TypedDict, total=False):
    device: str | None
    devices: int | str | None
    precision: str | None
    tensor: int | str | None
    engine: str | None
    known: str | Path | None
    probe: str | Path | None
    catalogue: str | Path | None
    users: int | str | None
    rate: float | str | None
    prompt: int | str | None
    answer: int | str | None
    kv: str | None
    groups: int | str | None
    ttft: float | str | None
    tpot: float | str | None
    of: str | None
    peak: float | str | None
    spare: int | str | None
    like: str | Path | None
    train: str | None
    batch: int | str | None
    microbatch: int | str | None
    context: int | str | None
    recompute: str | None
    pipeline: int | str | None
    expert: int | str | None
    tokens: float | str | None
    within: float | str | None
    effective: float | str | None

class PlanRoiWords(TypedDict, total=False):
    model: str | None
    device: str | None
    devices: int | str | None
    precision: str | None
    tensor: int | str | None
    engine: str | None
    ttft: float | str | None
    tpot: float | str | None
    of: str | None
    throughput: float | str | None
    like: str | Path | None
    input_tokens: float | str | None
    output_tokens: float | str | None
    rent: str | None
    reserved: str | None
    buy: str | None
    api: str | None
    prices: str | Path | None
    residual: str | None
    fixed: str | None
    energy: str | None
    power: float | str | None
    idle_power: float | str | None
    host: float | str | None
    pue: float | str | None
    busy: float | str | None
    catalogue: str | Path | None
    hours: float | str | None
    months: Any | None
    resale_falls: Decimal | str | None
    rent_falls: Decimal | str | None
    warranty: str | None
    discount: Decimal | str | None
    delivery: int | str | None
    finance: Decimal | str | None
    finance_months: int | str | None

class PlanCalibrateWords(TypedDict, total=False):
    device: str | None
    precision: str | None
    tensor: int | str | None
    engine: str | None
    probe: str | Path | None
    catalogue: str | Path | None

class PlanCheckWords(TypedDict, total=False):
    device: str | None
    devices: int | str | None
    runtime: str | None
    driver: str | None
    hours: float | str | None
    link: str | None
    volts: float | str | None
    phases: str | None
    rise: float | str | None
    host_watts: float | str | None
    table: str | Path | None
    probe: str | Path | None
    catalogue: str | Path | None
    precision: str | None
    users: int | str | None
    context: int | str | None
    answer: int | str | None
    fast: float | str | None
    slow: float | str | None
    train: str | None
    tokens: float | str | None
    deadline: str | Sequence[Any] | None
    mfu: float | str | None

class PlanCheckpointWords(TypedDict, total=False):
    mtbf: float | str | None
    device_mtbf: float | str | None
    devices: int | str | None
    save: float | str | None
    restart: float | str | None

class PlanMethodWords(TypedDict, total=False):
    device: str | None
    devices: int | str | None
    corpus: float | str | None
    changes: str | None
    examples: int | str | None
    style: bool | None
    own_weights: bool | None
    requests: float | str | None
    price: str | None
    budget: Decimal | str | None
    months: int | str | None
    deadline: float | str | None
    mfu: float | str | None
    prompt: int | str | None
    answer: int | str | None
    context: int | str | None
    retrieved: int | str | None
    example_tokens: int | str | None
    shots: int | str | None
    epochs: int | str | None
    catalogue: str | Path | None

class PlanModelWords(TypedDict, total=False):
    device: str | None
    devices: int | str | None
    precision: str | None
    users: int | str | None
    context: int | str | None
    answer: int | str | None
    price: Decimal | str | None
    scores: str | Path | None
    licence: str | None
    most_tpot: float | str | None
    least_quality: float | str | None
    most_cost: Decimal | str | None
    catalogue: str | Path | None

class PlanQuotesWords(TypedDict, total=False):
    input: int | str | None
    output: int | str | None
