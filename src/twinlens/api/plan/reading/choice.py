"""Words of a choice read into values: shares of work, times, power, what the site needs, and which devices."""

from __future__ import annotations

from collections.abc import Iterable

from twinlens.api.plan.reading.amount import (
    UNREADABLE,
    above_zero,
    count_of,
    one_of,
    predicted_format,
    quantity_of,
    short,
    split,
)
from twinlens.api.plan.reading.subject import device_of
from twinlens.errors import BadInput
from twinlens.planning.choose.wanted import Need
from twinlens.planning.fit.answer import MOST_DEVICES
from twinlens.planning.prediction.work import STORED, held_format, spoken
from twinlens.planning.subject import Subject
from twinlens.record.finding import Finding
from twinlens.spec.catalogue import Catalogue
from twinlens.spec.device import Device
from twinlens.theory.figure import assumed

COMPLIANCE = ("fedramp", "hipaa", "itar")
TRAINED_IN = ("bf16", "fp16", "fp8", "fp32")
"""Formats of products that training steps are predicted in."""
_SERVED = {"q4": "int4", "q8": "int8"}
"""Bits alone: a choice is of servers that do not read GGUF files."""


def shares_of(training: float | None, inference: float | None) -> float:
    """The share of training, 0 to 1. Raises BadInput (TL231) for shares that are not one whole, with those that are."""
    both = {"training": training, "inference": inference}
    said = {name: share for name, share in both.items() if share is not None}
    if len(said) == 2 and abs(said["training"] + said["inference"] - 1) > 1e-6:
        left = 100 * (1 - said["training"])
        raise BadInput(
            f"--training {100 * said['training']:g} and --inference {100 * said['inference']:g} are not 100 % "
            f"together; with that training, write --inference {left:g}",
            code=UNREADABLE,
        )
    return said["training"] if "training" in said else 1 - said["inference"] if said else 0.5


def percent_of(name: str, word: object) -> float:
    """A share of the hours, from per cent. Raises BadInput (TL231)."""
    value, unit = split(name, word, "it is a share of the hours from 0 to 100")
    if unit not in ("", "%") or not 0 <= value <= 100:
        raise BadInput(f"--{name} is a share of the hours from 0 to 100, not {short(word)}", code=UNREADABLE)
    return value / 100


def most_of(name: str, word: object) -> int:
    """Devices of one system at most. Raises BadInput (TL231) above what layouts are tried for."""
    many = count_of(name, word)
    if many > MOST_DEVICES:
        raise BadInput(f"--{name} is at most {MOST_DEVICES:,}, and {many:,} is more", code=UNREADABLE)
    return many


def speed_of(name: str, word: object) -> float:
    """Seconds between two tokens, from tokens/s of one user. Raises BadInput (TL231)."""
    text = str(word).strip()
    plain = text.removesuffix("tokens/s").removesuffix("tok/s").strip()
    return 1 / above_zero(name, plain, 1e5)


def duty_of(name: str, word: object) -> float:
    """Hours a day. Raises BadInput (TL231) for more than a day has."""
    text = str(word).strip()
    if text.replace(".", "", 1).isdecimal():
        text = f"{text} h"
    hours = quantity_of(name, text, "time", f"write hours a day: --{name} 8h") / 3600
    if hours > 24:
        raise BadInput(f"--{name} {short(word)!r} is more than the 24 h of a day", code=UNREADABLE)
    return hours


def precisions_of(name: str, word: str, known: Iterable[str]) -> tuple[str, ...]:
    """Formats, separated by commas, each once. Raises BadInput (TL231)."""
    words = [each.strip().lower() for each in word.split(",") if each.strip()]
    if not words:
        raise BadInput(f"--{name} names no format; write --{name} bf16,fp8", code=UNREADABLE)
    return tuple(dict.fromkeys(one_of(name, _SERVED.get(each, predicted_format(each)), set(known)) for each in words))


def served_in(word: str | None, subject: Subject) -> tuple[str, ...]:
    """Formats that serving is predicted in; without a word, that in which the model is published, else bf16."""
    if word is None:
        own = spoken(subject.own_format or "bf16")
        return (own if own in STORED else "bf16",)
    names = precisions_of("precision", word, STORED)
    return tuple(dict.fromkeys(spoken(held_format(name, subject)) for name in names))


def needs_of(
    ecc: bool, datacentre: bool, on_premise: bool, compliance: str | None
) -> tuple[frozenset[Need], tuple[Finding, ...]]:
    """What a device must be; a rule that keeps data on one's own floor asks for a device that can be bought."""
    words = [one_of("compliance", each, COMPLIANCE) for each in (compliance or "").split(",") if each.strip()]
    needs: set[Need] = set()
    if ecc:
        needs.add("ecc")
    if datacentre:
        needs.add("datacentre")
    if on_premise or words:
        needs.add("on-premise")
    return frozenset(needs), tuple(assumed("compliance", "on your own floor", rule=each.upper()) for each in words)


def among(word: str | None, catalogue: Catalogue, needs: frozenset[Need]) -> tuple[Device, ...]:
    """The devices to choose from. Raises BadInput (TL204, TL231) for a name that is none, and for a contradiction."""
    if word is None:
        return catalogue.devices
    names = [each.strip() for each in word.split(",") if each.strip()]
    if not names:
        raise BadInput("--among names no device; write --among H100,H200", code=UNREADABLE)
    found = tuple(dict.fromkeys(device_of(each, catalogue)[0] for each in names))
    if "on-premise" in needs and all(each.form == "cloud-only" for each in found):
        raise BadInput(
            f"--among names only devices of a cloud ({', '.join(each.name for each in found)}), and the site asks for "
            "its own; leave --on-premise out, or add a device that is sold",
            code=UNREADABLE,
        )
    return found
