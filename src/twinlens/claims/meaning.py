"""The meaning of a claim: the relations that rest on most of its sentence.

Every rule reads the claim through a `View`, which keeps what it asked for. What another number or name in its place
would not change was not used. The rule that uses most is the meaning; what is left is asked again, as a sentence may
hold several figures.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial

from twinlens.claims import device
from twinlens.claims.algebra import arithmetic, equation
from twinlens.claims.device import ratio
from twinlens.claims.law import READINGS, break_even, energy_share, monthly_bill, useful_hour
from twinlens.claims.names import ABOUT, USUAL
from twinlens.claims.reading import compute, kv, memory, training
from twinlens.claims.reading.compute import all_reduce_share, all_reduce_time
from twinlens.claims.reading.decode import decode_rate, decode_time
from twinlens.claims.said import Answer, Claim, Gap, MoreThanWhole, Said, Token, View, Word
from twinlens.errors import BadInput

Rule = Callable[[View], Answer | Gap | None]
RULES: tuple[Rule, ...] = (
    useful_hour, break_even, monthly_bill, energy_share, *READINGS,
    all_reduce_time, all_reduce_share, compute.speculation, compute.totals, compute.end_to_end, compute.ridge_batch,
    device.link, ratio, kv.kv_size, kv.kv_room, kv.kv_each, kv.kv_tokens, compute.prefill, decode_rate, decode_time,
    device.bandwidth, device.memory, device.power, device.rate,
    memory.left_over, training.training_fit, training.training_memory, memory.fit, memory.weights_size,
    *(partial(device.model_figure, kind) for kind in ("active", "params", "kv_heads", "heads", "layers")),
    equation, arithmetic,
)  # fmt: skip
"""Of two that use as much of a sentence, the first is taken."""
_VAGUE = ("named", "machine", "ratio", "each", "share", "peak", "bandwidth", "half", "dense", "day", "month", "needs")
_INPUTS = ("params", "active", "devices", "sequences", "context")
"""Kinds of number that are hardly ever the figure of a claim."""
_OF_EACH = ("flop_rate", "bandwidth", "card_bytes", "price_device")
"""Kinds of number that are of each device where nothing else is said, as makers do."""
_TIMES_DEVICES = ("price_hour", "power", "context")
"""Kinds of number that are of each device too, and are multiplied by how many there are."""
FACTS = ("weights", "link", "kv-per-token")
"""Figures that a sentence may state first, and then compute with."""
_MOST_ANSWERS = 6
_PROBES = (1e-3, 1e3)
_OTHERS = {"model": ("llama-3.2-1b", "mixtral-8x7b"), "device": ("l4", "mi325x"), "format": ("fp8", "fp32"),
           "kv_format": ("fp8", "fp32"), "link": ("pcie3", "nvlink5")}  # fmt: skip
"""What a name is replaced by, to see whether an answer rests on it."""


@dataclass(frozen=True, slots=True)
class Fitted:
    """The answer of a rule, what it rests on, and by how much its values may be off through rounded inputs."""

    answer: Answer | Gap
    used: frozenset[Token]
    spans: tuple[tuple[float, float], ...] = ()
    dropped: tuple[Word, ...] = ()
    """ "Per user" and "per GPU" that change nothing, though several are said."""
    beyond: tuple[tuple[Said, Fitted], ...] = ()
    """Inputs that are bounds ("at least 8 users"), each with the answer far on its open side."""

    @property
    def score(self) -> float:
        names = sum(not (isinstance(each, Word) and each.kind == "topic") for each in self.used)
        topics = sum(isinstance(each, Word) and each.kind == "topic" and each.name not in _VAGUE for each in self.used)
        lacks = isinstance(self.answer, Gap) or "mfu" in self.answer.missing
        return names + 0.5 * topics - 1.6 * lacks


def meaning(claim: Claim) -> tuple[list[Fitted], BadInput | None]:
    """The rules that explain a claim, the one that uses most of it first; and what made one unreadable."""
    tried: list[tuple[Rule, Fitted]] = []
    error: BadInput | None = None
    for rule in RULES:
        view = View(claim)
        try:
            answer = rule(view)
        except MoreThanWhole:
            raise
        except BadInput as problem:
            error = error or problem
            continue
        if answer is not None:
            view.says(*ABOUT.get(answer.quantity, "").split())
            tried.append((rule, Fitted(answer, _turning(rule, claim, answer, view.used))))
    found: list[Fitted] = []
    used: set[Token] = set()
    while tried and len(found) < _MOST_ANSWERS:
        open_now = [each for each in tried if not found or _adds(each[1], used)]
        if not open_now:
            break
        rule, best = max(open_now, key=lambda each: (len(each[1].used - used) > 0, each[1].score))
        tried.remove((rule, best))
        used |= best.used
        found.append(_whole(rule, claim, best))
        if isinstance(best.answer, Gap):
            break
    return found, error


def _whole(rule: Rule, claim: Claim, fitted: Fitted) -> Fitted:
    """The same answer with what its rounded, qualified and bounded inputs do to it."""
    return replace(
        fitted, spans=tuple(_spans(rule, claim, fitted)), dropped=tuple(_dropped(rule, claim, fitted)),
        beyond=tuple(_beyond(rule, claim, fitted)),
    )  # fmt: skip


def _dropped(rule: Rule, claim: Claim, fitted: Fitted) -> Iterator[Word]:
    if isinstance(fitted.answer, Gap):
        return
    counts_devices = any(isinstance(each, Said) and each.kind == "devices" for each in fitted.used)
    for said in (each for each in fitted.used if isinstance(each, Said) and each.per):
        if said.per == "user" and said.kind == "context":
            continue
        if said.per == "device" and (said.kind in _OF_EACH or (counts_devices and said.kind in _TIMES_DEVICES)):
            continue
        many = claim.all("sequences" if said.per == "user" else "devices")
        others = [replace(said, per=per) for per in ("", "user", "device") if per != said.per]
        answers = [_again(rule, claim, said, other) for other in others]
        if any(each.low != 1 for each in many) and all(
            each is not None and each.cases == fitted.answer.cases for each in answers
        ):
            yield Word("topic", "turns", f"per {said.per} of {said.text}", said.at)


def _beyond(rule: Rule, claim: Claim, fitted: Fitted) -> Iterator[tuple[Said, Fitted]]:
    if isinstance(fitted.answer, Gap) or (fitted.answer.quantity == "no-room" and memory.too_few(claim)):
        return
    for said in (each for each in fitted.used if isinstance(each, Said) and each.side):
        far = _scaled(said, _PROBES[said.side == "least"]) if said != fitted.answer.claimed else said
        again = _again(rule, claim, said, far) if far != said else None
        if again is not None:
            yield said, Fitted(again, fitted.used, tuple((case.number, case.number) for case in again.cases))


def _adds(fitted: Fitted, used: set[Token]) -> bool:
    """Whether an answer judges a figure that no other has used."""
    if isinstance(fitted.answer, Gap):
        return any(isinstance(each, Said) and each.kind not in _INPUTS for each in fitted.used - used)
    claimed = fitted.answer.claimed
    if claimed is not None and claimed.at >= 0:
        names = {each for each in fitted.used - used if not (isinstance(each, Word) and each.kind == "topic")}
        return claimed not in used or (fitted.answer.quantity in FACTS and bool(names))
    return any(isinstance(each, Said) or each.name == "fits" for each in fitted.used - used)


def _turning(rule: Rule, claim: Claim, answer: Answer | Gap, used: set[Token]) -> frozenset[Token]:
    """What an answer really rests on: a number or a name that a rule read, and that changes nothing, was not used."""
    if isinstance(answer, Gap):
        return frozenset(used)
    kept = {each for each in used if each == answer.claimed or (isinstance(each, Word) and each.kind not in _OTHERS)}
    for token in used - kept:
        others: Iterable[Token] = (
            (_scaled(token, factor) for factor in _PROBES) if isinstance(token, Said)
            else (replace(token, name=name) for name in _OTHERS[token.kind] if name != token.name)
        )  # fmt: skip
        if any(_differs(rule, claim, token, other, answer) for other in others):
            kept.add(token)
    return frozenset(kept)


def _scaled(said: Said, factor: float) -> Said:
    return (
        said if said.low is None or said.high is None else replace(said, low=said.low * factor, high=said.high * factor)
    )


def _differs(rule: Rule, claim: Claim, token: Token, other: Token, answer: Answer) -> bool:
    again = _again(rule, claim, token, other)
    return again is None or (again.cases, again.refuted, again.claimed) != (
        answer.cases,
        answer.refuted,
        answer.claimed,
    )


def _again(rule: Rule, claim: Claim, token: Token, other: Token) -> Answer | None:
    """The answer to a claim with one number or name changed."""
    said = tuple(other if each == token and isinstance(other, Said) else each for each in claim.said)
    words = tuple(other if each == token and isinstance(other, Word) else each for each in claim.words)
    try:
        answer = rule(View(replace(claim, said=said, words=words)))
    except BadInput:
        return None
    return answer if isinstance(answer, Answer) else None


def _spans(rule: Rule, claim: Claim, fitted: Fitted) -> Iterator[tuple[float, float]]:
    """The least and the greatest value of each reading, all inputs as far off as their rounding allows."""
    answer = fitted.answer
    if isinstance(answer, Gap):
        return
    ends = [[case.number, case.number] for case in answer.cases]
    for said in sorted(fitted.used, key=lambda each: each.at):
        if not isinstance(said, Said) or said == answer.claimed or said.low is None or said.value in USUAL:
            continue
        for factor in said.factors:
            again = _again(rule, claim, said, _scaled(said, factor)) if factor != 1.0 else None
            for end, case, other in zip(ends, answer.cases, again.cases if again else (), strict=False):
                times = other.number / case.number
                end[0], end[1] = end[0] * min(1.0, times), end[1] * max(1.0, times)
    yield from ((low, high) for low, high in ends)
