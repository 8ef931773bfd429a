"""The judgement of a claim: the ruling on its meaning, with everything that it rests on, and what was not used.

What no answer used is said, and where it could change the ruling there is none.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Literal

from twinlens.claims.meaning import FACTS, Fitted, meaning
from twinlens.claims.names import HARMLESS
from twinlens.claims.said import (
    UNREADABLE,
    Answer,
    Claim,
    Gap,
    Judged,
    Ruling,
    Said,
    Token,
    View,
    Word,
    remark,
    values,
)
from twinlens.claims.several import conflicts_of, ends_of, ruling_of, with_each
from twinlens.errors import BadInput
from twinlens.record.finding import Finding, each_once
from twinlens.theory.figure import Figure

_EVERY = ("lens", "model", "precision", "device", "batch", "context")
"""What any figure of a device needs before it means something."""
_ORDER: tuple[Ruling, ...] = ("wrong", "incomplete", "holds under an assumption", "holds")


def judge(claim: Claim) -> Judged:
    """The ruling on a claim, with everything that it rests on. Raises BadInput for a claim that contradicts itself."""
    found, error = meaning(claim)
    found = [each for each in found if not _is_doubtful(each, found)]
    left = _left(claim, found)
    is_whole = bool(found) and not any(isinstance(each.answer, Gap) for each in found) and not left
    if ends := ends_of(claim):
        found = [fitted for each in ends for fitted in meaning(each)[0]]
        left = _left(claim, found)
    elif not is_whole and (conflicts := conflicts_of(claim)):
        found = with_each(claim, conflicts, found, left)
        left = _left(claim, found)
    elif not found and error is not None:
        raise error
    if (bare := next((each for each in left if each.kind == "bare"), None)) is not None:
        raise BadInput(
            f"{bare.text!r} has no unit: say what it is, as in 40 GB, 45 tok/s, 1.79 TB/s, 16 users, 32K context, 70B",
            code=UNREADABLE,
        )
    return _judged(claim, found, left)


def _is_doubtful(fitted: Fitted, found: Sequence[Fitted]) -> bool:
    """Whether a figure that is an input of another answer does not hold by itself: it may be meant otherwise."""
    if isinstance(fitted.answer, Gap) or fitted.answer.quantity not in FACTS:
        return False
    is_input = any(fitted.answer.claimed in each.used for each in found if each is not fitted)
    return is_input and not ruling_of(fitted)[0].startswith("holds")


def _left(claim: Claim, found: Sequence[Fitted]) -> tuple[Token, ...]:
    """Numbers, names and decisive topics that no answer used; what says a used number again is none of them."""
    answered = [each for each in found if isinstance(each.answer, Answer)]
    used: set[Token] = set().union(*(each.used for each in answered or found))
    same = {(each.kind, each.low, each.high) for each in used if isinstance(each, Said)}
    names = {(each.kind, each.name) for each in used if isinstance(each, Word)}
    figures = [each.answer.quantity for each in answered]
    if len(set(figures)) < len(figures):  # one figure of several things, which are set side by side
        used |= {each for each in claim.words if each.text.lower() in _BESIDE}
    said = (each for each in claim.said if each not in used and (each.kind, each.low, each.high) not in same)
    words = (
        each
        for each in claim.words
        if each not in used and (each.kind, each.name) not in names and each.kind not in ("optimizer", "family")
        and (each.kind != "topic" or each.name not in HARMLESS)
    )  # fmt: skip
    dropped = (each for fitted in answered for each in fitted.dropped)
    return tuple(sorted((*said, *words, *dropped), key=lambda each: each.at))


def _blocks(token: Token, found: Sequence[Fitted]) -> bool:
    """Whether something unused could change the ruling.

    The name of a device cannot, nor that of a model beside plain numbers, nor how many devices there are where all is
    said of each, nor a format where bytes or FLOP/s are said.
    """
    plain = all(isinstance(each.answer, Answer) and each.answer.is_arithmetic for each in found)
    used = [each for fitted in found for each in fitted.used if isinstance(each, Said)]
    device = any(isinstance(each, Word) and each.kind == "device" for fitted in found for each in fitted.used)
    if isinstance(token, Said):
        each_of = {"devices": "device", "sequences": "user"}.get(token.kind)
        is_of_each = each_of is not None and any(each.per == each_of for each in used)
        return not (is_of_each or (plain and token.kind in ("params", "active")))
    if (
        token.kind != "unread"
        and token.name == "unknown"
        and (plain or (not device and any(each.kind == "bandwidth" for each in used)))
    ):
        return False
    if token.kind == "link" and plain:
        return False
    if token.kind == "format":
        return not plain and not any(each.kind in ("flop_rate", "bytes_per_param") for each in used)
    return token.kind != "device" and not (plain and token.kind == "model")


def _judged(claim: Claim, found: Sequence[Fitted], left: Sequence[Token]) -> Judged:
    blocks = [each for each in left if _blocks(each, found)]
    answered = [(each, *ruling_of(each)) for each in found if isinstance(each.answer, Answer)]
    for place, each in enumerate(answered):
        if len(answered) == len(found) and (denial := _denial(claim, found, each[0], blocks)) is not None:
            blocks.remove(denial)
            left = tuple(token for token in left if token != denial)
            answered[place] = _denied(*each)
    open_ended = [said for each in answered for said, far in each[0].beyond if _turns(each[1], far)]
    blocks += open_ended
    left = (*left, *open_ended)
    unused = (
        (Finding("claim-unused", "warns", "", {"texts": [each.text for each in left], "decides": bool(blocks)}),)
        if left else ()
    )  # fmt: skip
    gaps = [each.answer for each in found if isinstance(each.answer, Gap)]
    if not answered:
        gap = gaps[0] if gaps else _nothing(claim)
        return Judged("incomplete", (_missing(gap.missing, gap.quantity, decides=True), *unused))
    answered.sort(key=lambda each: _ORDER.index(each[1]))
    ruling = answered[0][1]
    far = [finding for each in answered if each[1] == "wrong" for finding in _beyond_a_slip(each[0])]
    if blocks or (gaps and ruling != "wrong") or _is_of_both(answered) or far:
        ruling = "incomplete"
    findings = [*(finding for each in answered for finding in _told(*each)), *far]
    missing = [each for each in findings if each.code == "claim-missing"]
    names = [name for each in missing for name in each.numbers["names"]] + [
        name for gap in gaps for name in gap.missing
    ]
    if names:
        decides = bool(gaps) or any(each.numbers["decides"] for each in missing)
        subject = gaps[0].quantity if gaps else missing[0].subject
        findings = [each for each in findings if each.code != "claim-missing"]
        findings.append(
            _missing(
                tuple(name for gap in gaps for name in gap.missing) if gaps else tuple(names), subject, decides=decides
            )
        )
    return Judged(ruling, (*each_once(findings), *unused))


_BESIDE = ("against", "vs", "vs.", "versus", "compared with", "compared to")
_MOST_TIMES = 3000.0
_NEAR_FIGURE = 45  # letters
_TO_BE = re.compile(r"(?i)\b(?:is|are|was|were)(?: ?n[o']t| not)|\b(?:isn't|aren't|wasn't|weren't)")
_TO_DO = re.compile(
    r"(?i)(?: really| actually| even| just)? ?(?:be|needs?|takes?|costs?|draws?|uses?|requires?|reach|deliver|offer|"
    r"get|have|"
    r"give|yield|do|last|finish|contain|store|hold|spend|consume|mean|make|provide|run|train|decode|prefill|exceed|come|"
    r"load|read|process|produce|generate|serve|occupy|weigh|burn|equal|amount|add|ship|pay)\b"
)
_WHOLE = re.compile(r"(?i)true|false|myth|wrong|incorrect|nonsense")


def _denial(claim: Claim, found: Sequence[Fitted], fitted: Fitted, blocks: Sequence[Token]) -> Word | None:
    """The only "not" of a sentence, where it denies this figure: close before it, or "… is not true" of one alone."""
    assert isinstance(fitted.answer, Answer)
    figure = fitted.answer.claimed
    nots = [each for each in claim.words if each.name == "not"]
    if len(nots) != 1 or nots[0] not in blocks or figure is None or fitted.answer.quantity in ("memory", "no-room"):
        return None
    (denial,) = nots
    is_between = any(denial.at < each.at < figure.at for each in claim.said) and not figure.side
    is_verb = bool(_TO_BE.search(denial.text) or _TO_DO.match(claim.text[denial.at + len(denial.text) :]))
    is_close = 0 < figure.at - denial.at <= _NEAR_FIGURE and not is_between and is_verb
    return denial if is_close or (len(found) == 1 and _WHOLE.search(denial.text)) else None


def _denied(fitted: Fitted, ruling: Ruling, taken: Figure, gib: bool) -> tuple[Fitted, Ruling, Figure, bool]:
    """The opposite: a bound turns round, what is possible is not refuted, and what is impossible never happens."""
    answer = fitted.answer
    assert isinstance(answer, Answer)
    assert answer.claimed is not None
    if answer.refuted is not None:
        return fitted, "incomplete", taken, gib
    if answer.claimed.side:
        side: Literal["least", "most"] = "least" if answer.claimed.side == "most" else "most"
        turned = replace(answer, claimed=replace(answer.claimed, side=side), bound="same")
        found = replace(fitted, answer=turned)
        return found, *ruling_of(found)
    if ruling != "wrong":
        ruling = "wrong" if ruling == "holds" and answer.bound == "same" else "incomplete"
        return fitted, ruling, taken, gib
    return fitted, "holds", taken, gib


def _beyond_a_slip(fitted: Fitted) -> Iterator[Finding]:
    """That a figure is further off than a slip of one prefix: the sentence may mean something else."""
    answer = fitted.answer
    assert isinstance(answer, Answer)
    assert answer.claimed is not None
    times = min(max(each.number / answer.claimed.value, answer.claimed.value / each.number) for each in answer.cases)
    if times > _MOST_TIMES and answer.refuted is None:
        yield remark("far", times=times)


def _is_of_both(answered: Iterable[tuple[Fitted, Ruling, Figure, bool]]) -> bool:
    """Whether figures of different kinds fit only where one is of all devices and the other is of each."""
    sides: dict[str, set[str]] = {}
    for fitted, _, taken, _ in answered:
        assert isinstance(fitted.answer, Answer)
        if fitted.answer.claimed is not None and taken.reading in ("of-all", "of-each"):
            sides.setdefault(fitted.answer.claimed.kind, set()).add(taken.reading)
    return len(set().union(*sides.values())) > 1 and all(len(each) == 1 for each in sides.values())


def _turns(ruling: Ruling, far: Fitted) -> bool:
    """Whether a ruling is another one far on the open side of an input; how many are needed is a claim itself."""
    assert isinstance(far.answer, Answer)
    other = ruling_of(far)[0]
    is_need = far.answer.refuted is not None and far.answer.refuted.subject == "fewer"
    return not is_need and "wrong" in (ruling, other) and ruling != other


def _nothing(claim: Claim) -> Gap:
    figure = () if claim.all("share") else ("figure",)
    return Gap("nothing", (*figure, *(name for name in _EVERY if not _says(claim, name))))


def _told(fitted: Fitted, ruling: Ruling, taken: Figure, gib: bool) -> Iterator[Finding]:
    answer = fitted.answer
    assert isinstance(answer, Answer)
    yield _compared(answer, taken, fitted.spans)
    shown = (*answer.cases[:4], *(answer.also if ruling != "holds" else ()))
    yield from (_computed(answer, case, taken) for case in shown)
    yield from answer.assumed if ruling != "wrong" or not gib else ()
    if gib:
        yield Finding("claim-assumed", "notes", "gib", {"taken": "GiB"})
    if answer.missing:
        yield _missing(answer.missing, answer.quantity, decides=answer.is_open)
    if answer.refuted is not None:
        yield answer.refuted
    yield from answer.remarks if ruling == "wrong" else ()
    yield from _kept(answer, ruling)


def _kept(answer: Answer, ruling: Ruling) -> tuple[Finding, ...]:
    """The solutions where the claim does not hold, and what is left over where it does."""
    left = tuple(each for each in answer.solutions if "tokens_left" in each.numbers["settings"])
    if ruling == "holds":
        return left
    if ruling == "holds under an assumption":
        return left or (answer.solutions[-1:] if len(answer.cases) > 1 else ())
    return answer.solutions


def _compared(answer: Answer, case: Figure, spans: Sequence[tuple[float, float]]) -> Finding:
    said = answer.claimed
    assert said is not None
    least, most = values(answer.cases)
    numbers = {"unit": answer.unit, "bound": answer.bound, "claimed_low": said.low, "claimed_high": said.high,
               "said": said.text, "computed": case.value, "computed_low": least, "computed_high": most,
               "rounded_low": min(low for low, _ in spans), "rounded_high": max(high for _, high in spans)}  # fmt: skip
    return Finding("claim-compared", "notes", answer.quantity, numbers)


def _computed(answer: Answer, case: Figure, taken: Figure) -> Finding:
    terms = [{"name": each.name, "value": each.value, "unit": each.unit} for each in case.inputs]
    numbers = {"value": case.value, "unit": case.unit, "terms": terms, "formula": case.formula,
               "assumed": case.reading, "decides": case is taken}  # fmt: skip
    numbers |= {"law": case.law} if case.law else {}
    return Finding("claim-computed", "notes", answer.quantity, numbers)


def _missing(names: tuple[str, ...], quantity: str, *, decides: bool) -> Finding:
    return Finding("claim-missing", "warns", quantity, {"names": list(dict.fromkeys(names)), "decides": decides})


def _says(claim: Claim, name: str) -> bool:
    kinds = {"batch": "sequences", "context": "context"}
    named = {"model": "model", "device": "device", "precision": "format"}
    if name == "lens":
        return View(claim).about("training", "decode", "prefill")
    if name == "model" and claim.all("params"):
        return True
    return bool(claim.all(kinds[name])) if name in kinds else bool(claim.names(named[name]))
