"""The settings of a gateway, from one TOML file: backends, policy, failures, limits."""

from __future__ import annotations

import json
from collections.abc import Iterator
from decimal import Decimal
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt, ValidationError

from twinlens.errors import BadInput, nearest
from twinlens.spec.frozen import Spec
from twinlens.spec.load import wrong_fields
from twinlens.system.document import read_toml

CODE = "TL275"
_PRICES = ("price_per_hour", "price_per_million", "price_per_million_input")
Policy = Literal["least-ttft", "least-cost", "least-energy", "prefix", "two-choices", "round-robin"]
Name = Annotated[str, Field(min_length=1, max_length=100, pattern=r"^[^\x00-\x20\x7f/]+$")]
Share = Annotated[float, Field(ge=0, le=1)]


class BackendSettings(Spec):
    """One server. `run`: the folder of a measured run (or of several, a study) of this very server."""

    name: Name = Field(description="How it is called in routes, rows and pages.")
    url: str = Field("", description="Its address as far as /v1.", examples=["http://127.0.0.1:8001/v1"])
    launch: str = Field("", description="A spec whose server is started with the gateway, in place of `url`.")
    model: str = Field("", description="The model as this server calls it; else the first that it lists.")
    run: str = Field("", description="The folder of a measured run or study of this server.")
    key_env: str = Field("", description="The environment variable that holds its key.", examples=["UPSTREAM_KEY"])
    ca_file: str = Field("", description="A file of certificates that it is checked by.")
    price_per_hour: str = Field("", description="What it costs an hour.", examples=["2.50 USD"])
    price_per_million: str = Field(
        "",
        description="What a million output tokens cost there, where it is not an hour that is paid.",
        examples=["0.60 USD"],
    )
    price_per_million_input: str = Field(
        "",
        description="What a million prompt tokens cost there, where they are charged beside output tokens.",
        examples=["0.15 USD"],
    )
    weights: str = Field(
        "", description="A name that backends with the very same weights share; else as the measured run hashed them."
    )
    quality: dict[str, Share] = Field(
        default_factory=dict, description="Scores that were evaluated elsewhere, by name: constraints of `auto` alone."
    )
    most_in_flight: PositiveInt | None = Field(None, description="Requests that it may have at once.")


class AliasSettings(Spec):
    """A model's name that stands for others, or for whatever meets the constraints (`auto`)."""

    name: Name = Field(description="What clients write as `model`.")
    backends: tuple[Name, ...] = Field((), description="Which backends; none: all that meet the constraints.")
    least_quality: dict[str, Share] = Field(default_factory=dict, description="The least score, by its name.")
    most_usd_per_million: PositiveFloat | None = Field(None, description="The most an output token may cost, times 1M.")


class KeySettings(Spec):
    """One client. Its key is shown once, by `twinlens gateway --new-key NAME`, and stands here as a salted hash."""

    name: Name = Field(description="Who: a team or an application.")
    hash: str = Field(description="The salted hash of its key.")
    requests_per_min: PositiveInt | None = Field(None, description="Requests a minute.")
    tokens_per_min: PositiveInt | None = Field(None, description="Tokens a minute, of prompts and answers.")
    money_per_day: str = Field("", description="What it may spend a day (UTC).", examples=["5.00 USD"])
    models: tuple[str, ...] = Field((), description="Models and aliases that it may name; none: all.")


class Hedging(Spec):
    """A second request where the first has no token yet after its measured p95 of TTFT."""

    share: Annotated[float, Field(gt=0, le=0.2)] = Field(0.05, description="Of all requests, at most.")


class GatewaySettings(Spec):
    """The file of `twinlens gateway`."""

    host: str = Field("127.0.0.1", description="Where it listens; beyond this machine it needs keys.")
    port: Annotated[int, Field(ge=0, le=65535)] = Field(8080, description="0: a free one.")
    processes: Annotated[int, Field(ge=1, le=64)] = Field(1, description="How many share the port.")
    out: str = Field("gateway", description="The folder of its rows and of its state, from this file.")
    policy: Policy = Field("least-ttft", description="How one of several backends is chosen.")
    slo_ttft_s: PositiveFloat | None = Field(None, description="TTFT within which cost and energy are chosen.")
    slo_tpot_s: PositiveFloat | None = Field(None, description="TPOT within which cost and energy are chosen.")
    deadline_s: PositiveFloat = Field(600.0, description="The longest time of one request.")
    first_token_s: PositiveFloat = Field(
        60.0, description="The longest wait for a first token where none was measured."
    )
    silence_s: PositiveFloat = Field(60.0, description="The longest silence of a backend in mid-answer.")
    retry_share: Share = Field(0.1, description="Requests that may be tried again, of all.")
    stream_failure: Literal["end", "continue"] = Field(
        "end", description="What follows when a backend fails in mid-answer: an error, or another backend that goes on."
    )
    hedging: Hedging | None = Field(None, description="Second requests; off unless it stands here.")
    most_body_bytes: PositiveInt = Field(8 * 2**20, description="The largest request.")
    queue: NonNegativeInt = Field(0, description="Requests that may wait where all backends are full.")
    queue_s: NonNegativeFloat = Field(5.0, description="How long one may wait there.")
    telemetry_url: str = Field("", description="Where OpenTelemetry spans and metrics go (OTLP over HTTP).")
    backend: tuple[BackendSettings, ...] = Field(min_length=1, max_length=256, description="The servers behind it.")
    alias: tuple[AliasSettings, ...] = Field((), description="Further names of models.")
    key: tuple[KeySettings, ...] = Field((), description="Clients; none: no key is asked for, on this machine alone.")


def read_settings(path: Path) -> GatewaySettings:
    """The settings of a file. Raises BadInput (TL275) naming the field, what is wrong with it, and the nearest name."""
    data = read_toml(path)
    try:
        settings = GatewaySettings.model_validate_json(json.dumps(data, default=str))
    except ValidationError as error:
        raise BadInput(f"{path.name}: {wrong_fields(error, GatewaySettings)}", code=CODE) from None
    for wrong in _contradictions(settings):
        raise BadInput(f"{path.name}: {wrong}", code=CODE)
    return settings


def _contradictions(settings: GatewaySettings) -> Iterator[str]:
    """What no two fields may say together."""
    for kind, names in (("backends", [each.name for each in settings.backend]),
                        ("aliases", [each.name for each in settings.alias]),
                        ("keys", [each.name for each in settings.key])):  # fmt: skip
        if twice := next((each for each in names if names.count(each) > 1), None):
            yield f"two {kind} are called {twice!r}; give each a name of its own"
    known = [each.name for each in settings.backend]
    for alias in settings.alias:
        if stranger := next((each for each in alias.backends if each not in known), None):
            yield f"alias {alias.name!r} names the backend {stranger!r}; {nearest(stranger, known)}"
    for backend in settings.backend:
        if bool(backend.url) == bool(backend.launch):
            both = "both url and" if backend.url else "neither url nor"
            yield f"backend {backend.name!r} has {both} launch; write one of them"
        if backend.price_per_million_input and not backend.price_per_million:
            yield f"backend {backend.name!r} has a price of prompt tokens alone; write price_per_million too"
    yield from _currencies(settings)
    if not settings.key and not is_loopback(settings.host):
        yield f"host {settings.host!r} is reached from other machines, and no key is asked for; add a [[key]]"


def _currencies(settings: GatewaySettings) -> Iterator[str]:
    """Amounts of two currencies are never compared: nobody here knows what one is worth in the other."""
    priced = [(f"backend {each.name!r}", getattr(each, field)) for each in settings.backend for field in _PRICES]
    budgets = [(f"key {each.name!r}", each.money_per_day) for each in settings.key]
    said = [(who, money[1]) for who, text in (*priced, *budgets) if (money := money_of(text))]
    for who, currency in said:
        if currency != said[0][1]:
            first = f"{said[0][0]} in {said[0][1]}"
            yield f"{who} is in {currency}, and {first}; write all prices and budgets in one currency"


def is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def money_of(text: str) -> tuple[Decimal, str] | None:
    """ "5.00 USD" as an amount and its currency; None for "". Raises BadInput (TL275)."""
    if not text:
        return None
    amount, _, currency = text.partition(" ")
    try:
        value = Decimal(amount)
    except ArithmeticError:
        value = Decimal("NaN")
    if not value.is_finite() or value < 0 or len(currency) != 3 or not currency.isupper():
        raise BadInput(f"{text[:40]!r} is no amount of money; write 2.50 USD", code=CODE)
    return value, currency
