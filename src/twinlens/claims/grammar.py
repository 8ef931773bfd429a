"""The grammar of a claim: quantities, names and topics in any order; words in between are fillers, or say so.

claim    = { labelled | quantity | name | topic | filler | unread }
labelled = ("batch" | "context" | "TP" | "head dim" | "layers" …) number
quantity = number unit [ "per user" | "per GPU" ]   (claims/quantity.py)
name     = model | device | format | link           (claims/names.py)
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Literal

from twinlens.claims.names import MAKERS, device_at, format_at, is_filler, link_at, model_at, topic_at
from twinlens.claims.plain import plain
from twinlens.claims.quantity import NUMBER, read_quantity
from twinlens.claims.said import UNREADABLE, Claim, Said, Token, Word, checked, rounding, rounding_of_input
from twinlens.errors import BadInput
from twinlens.theory.memory import OPTIMIZERS

_MOST_LETTERS = 1000
_WORD = re.compile(r"[^\s,;:()\[\]?!\"“”]+")
_GAP = re.compile(r"[\s,;:()\[\]?!\"“”.=+/&'*→]+")
_COUNT = (
    r"\s*(?:of|size|=|:|is|a)*\s*(?P<least>at least |more than |≥ ?|>=? ?)?(?P<most>at most |less than |≤ ?|<=? ?)?"
    r"(?P<about>~|about |around )?(?P<sign>-)?(?P<n>\d[\d,]*)"
    r"\s?(?P<k>[kK])?(?![\d.]*\w|\.\d)"
)
_PART = r"(?P<least>)(?P<most>)\s*(?:of|=|:|is)*\s*(?P<sign>-)?(?P<n>0?\.\d+|1\.0|0)(?![\w.%])(?! ?%)(?P<k>)"
_LABELLED = tuple(
    (kind, re.compile(rf"(?:{words}){count}"))
    for kind, words, count in (
        ("sequences", r"(?i:batch(?:es)?(?:[- ]?size)?|bs|concurrency|users?)(?: of)?", _COUNT),
        ("context", r"(?i:context(?:[- ](?:length|window))?|ctx|seq(?:uence)?[ _-]?len(?:gth)?)(?: of)?", _COUNT),
        ("devices", r"(?:TP|tp|tensor[ -]parallel(?:ism)?)[ -]?", _COUNT),
        ("devices", r"[x×](?=\d+(?:[\s,.;:)]|$))", _COUNT),
        ("head_dim", r"(?i:head[ _-]dim(?:ension)?)", _COUNT),
        ("layers", r"(?i:layers)", _COUNT),
        ("kv_heads", r"(?i:kv[ _-]heads)", _COUNT),
        (
            "drafts",
            r"(?i:(?:draft(?:ing|s)?|speculat(?:ion|ing|es?))(?:[ -](?:length|depth|tokens))?|gamma|k(?==))(?: of)?",
            _COUNT,
        ),
        ("share", r"(?i:accept(?:ance)?(?: rate| probability)?|alpha|MFU|utili[sz]ation)", _PART),
    )
)
_TIMES = tuple(
    (re.compile(rf"(?i:{words})(?![\w-])"), times)
    for words, times in (
        (r"halv(?:es|ing|ed)", 2.0),
        (r"quarter(?:s|ed)", 4.0),
        (r"double(?: the)?|doubl(?:es|ed)|twice(?: as \w+)?", 2.0),
        (r"tripl(?:es|ed)|3 times", 3.0),
    )
)
_OF_STATES = re.compile(r"(?i:8[ -]?bit|bf16)[ -]?(?i:adam)")
"""A format of an optimizer's states, and not of the weights."""
_YEAR = re.compile(r"(?i:in|since|by|from|of|until) (?:19|20)\d\d(?! ?(?:[a-z\d%$]|[KMGTP]i?B\b|[kMG]?Wh?\b|TF|GF))")
_OF_KV = re.compile(r"(?i) (?:(?:of|for)(?: the)? )?kv\b(?![ -]cache per| per)")
_CARD = re.compile(
    r"(?i)[ -]?(?:of )?(?:vram |memory |class )?(?:nvidia |amd )?(?:gpus?|cards?|accelerators?|devices?)(?!\w)"
)
_OF_SIZE = re.compile(
    r"(?:[A-Z][A-Za-z]+ \d(?:\.\d+)? |(?:[A-Za-z][\w.]*-)*?[A-Za-z][A-Za-z\d.]*-)"
    r"(?=\d+(?:\.\d+)?[BbMT](?![A-Za-z0-9]))"
)
"""The family of a model that is not in the catalogue: "Falcon-40B" is 40B."""


_SIZE_NEXT = re.compile(r"(?:[ ,(]+(?:with|its|has|at|the|a|is)\b)*[ ,(]+\d[\d.]*[BbMT](?![A-Za-z0-9])")
_STEP_TIME = re.compile(
    r"(?i)(?:TPOT|ITL|inter-token latency|time per (?:output )?token|step(?: time)?)(?: of| is| takes|:| =|=| at)*\s*$"
)


def read_claim(text: str) -> Claim:
    """A claim from a sentence. Raises BadInput for what is empty, endless, unit-less, zero, negative or absurd."""
    if not text.strip():
        raise BadInput(
            'claim what? Give a sentence: twinlens claim "70B Q4 does 45 tok/s on 1.79 TB/s"', code=UNREADABLE
        )
    if len(text) > _MOST_LETTERS:
        raise BadInput(f"a claim is a sentence of at most {_MOST_LETTERS} letters, not {len(text):,}", code=UNREADABLE)
    whole = plain(text).replace("24/7", "24 h/day")
    claim = _read(whole)
    if not claim.said and all(each.kind == "unread" for each in claim.words):
        raise BadInput(
            f"nothing in {whole[:60]!r} was understood; a claim has a figure with a unit, such as 45 tok/s or 40 GB",
            code=UNREADABLE,
        )
    return claim


def _read(text: str) -> Claim:
    said: list[Said] = []
    words: list[Word] = []
    at = 0
    while at < len(text):
        if gap := _GAP.match(text, at) or _YEAR.match(text, at):
            at = gap.end()
        elif _OF_STATES.match(text, at):
            at = _topic(text, at, words)
        elif found := _name(text, at):
            words.append(found[0])
            at = found[1]
        elif (family := _OF_SIZE.match(text, at)) is not None:
            words.append(Word("family", "unknown", family[0].strip("-"), at))
            at = family.end()
        elif multiplied := _multiplied(text, at):
            said.append(multiplied[0])
            at = multiplied[1]
        elif (labelled := _labelled(text, at)) or (labelled := read_quantity(text, at)):
            labelled = _elliptic(text, labelled[0], said), labelled[1]
            if _is_contrast(labelled[0], text, said, words):
                words.pop()
                at = labelled[1]
                continue
            said.append(_in_place(labelled[0], text, labelled[1], said, words))
            words += _within(labelled[0], text)
            at = labelled[1]
        else:
            at = _topic(text, at, words)
    return _of_each(_of_groups(Claim(text, tuple(said), tuple(words))))


_WITH = re.compile(r"(?:[\s,(×x*-]|of|with|each|having|containing|holding|at)*")


def _of_groups(claim: Claim) -> Claim:
    """A claim with its devices counted over all nodes: "5 nodes with 8 GPUs each" are 40 GPUs.

    Beside a figure of each node ("10.2 kW per node") the nodes are what is counted.
    """
    group = next(iter(claim.all("groups")), None)
    if group is None or group.low is None or len(claim.all("groups")) > 1:
        return claim
    after = [each for each in claim.all("devices") if each.at > group.at]
    own = next((each for each in after if _WITH.fullmatch(claim.text[group.at + len(group.text) : each.at])), None)
    is_counted = any(each.per == "group" for each in claim.said)
    dropped = own if is_counted else group if own or group.low == 1 else None
    said = tuple(each for each in claim.said if each != dropped)
    words = claim.words
    if own is not None and own.low is not None:
        many = replace(own, low=own.low * group.low, high=own.low * group.low, per="")
        said = tuple(many if each == own else each for each in said)
        words = tuple(each for each in words if not (each.name == "each" and 0 <= each.at - _end(own) <= 2))
    return replace(claim, said=said, words=words)


_FIGURES = ("bytes", "rate", "kv_bytes", "power", "bandwidth", "flop_rate")
"""What may be of each user or device."""


def _of_each(claim: Claim) -> Claim:
    """A claim whose "per GPU" or "each user" stands apart from its figure ("Per GPU, …"), joined to the only one."""
    pers: tuple[tuple[str, Literal["user", "device"]], ...] = (("per-device", "device"), ("each", "user"))
    for topic, per in pers:
        apart = [each for each in claim.words if each.name == topic and each.text.lower() != "each"]
        figures = [each for each in claim.said if each.kind in _FIGURES]
        if apart and per == "user" and any(_is_beside(claim.text, each, apart[0]) for each in claim.all("context")):
            claim = replace(claim, words=tuple(each for each in claim.words if each not in apart))  # of the context
        elif apart and len(figures) == 1 and figures[0].per in ("", per):
            said = tuple(replace(each, per=per) if each == figures[0] else each for each in claim.said)
            claim = replace(claim, said=said, words=tuple(each for each in claim.words if each not in apart))
    return claim


def _is_beside(text: str, said: Said, word: Word) -> bool:
    """Whether a word stands beside a number, with nothing but "of context" or "for" between: "each user has 8K"."""
    between = text[_end(said) : word.at] if said.at < word.at else text[_end(word) : said.at]
    return (
        re.fullmatch(r"(?i)(?: ?(?:tokens?|of|context|for|has|with|at|a|and|holds|in|gets|each)\b)* ?", between)
        is not None
    )


_AGAIN = re.compile(
    r"(?i)\b(?:against|versus|vs\.?|not|instead of|rather than|than|but only|or|to|and)(?: only| just)? $"
)


def _elliptic(text: str, said: Said, before: list[Said]) -> Said:
    """A number without a unit that has that of the one before: "4.8 TB/s against 3.35", "3,906 steps, not 39,060"."""
    if said.kind != "bare" or not before or not _AGAIN.search(text[: said.at]) or before[-1].low is None:
        return said
    digits = re.search(r"\d[\d,]*(?:\.\d+)?", before[-1].text)
    if digits is None or before[-1].kind in ("sequences", "devices", "context", "groups"):
        return said
    factor = before[-1].low / float(digits[0].replace(",", ""))
    return replace(
        before[-1], low=said.value * factor, high=said.value * factor, text=said.text, off=said.off, at=said.at
    )


def _is_contrast(said: Said, text: str, before: list[Said], words: list[Word]) -> bool:
    """Whether a number only says what the one before is not: "3,906 steps and not 39,060"."""
    is_denied = bool(re.search(r"(?i)\bnot $", text[: said.at])) and bool(words) and words[-1].text.lower() == "not"
    if not is_denied or not before or before[-1].kind != said.kind or not said.low or not before[-1].low:
        return False
    gap = text[before[-1].at + len(before[-1].text) : said.at]
    return bool(re.fullmatch(r"[,;]? ?(?:and |but )?not ", gap)) and abs(said.low / before[-1].low - 1) > 0.1


def _multiplied(text: str, at: int) -> tuple[Said, int] | None:
    """ "doubles", "twice as fast", "triples": a ratio in a word."""
    for pattern, times in _TIMES:
        if (found := pattern.match(text, at)) is not None:
            return Said("ratio", times, times, found[0], at=at), found.end()
    return None


def _in_place(said: Said, text: str, end: int, before: list[Said], words: list[Word]) -> Said:
    """A quantity by its neighbours: "H200 is 1.4x H100" is no count, and 24 GB of "a 24 GB 3090" are its own."""
    if said.kind == "devices" and said.text.strip()[-1:] in "x×" and any(each.kind == "device" for each in words):
        return replace(said, kind="ratio")
    if (own := _AS_BEFORE.get(said.kind)) and any(_is_alike(said, own, each, text) for each in before):
        return replace(said, kind=own)
    if said.kind == "time" and _STEP_TIME.search(text[: said.at]):
        return replace(said, kind="token_time")
    if (
        said.kind == "params"
        and re.fullmatch(r"[\d.,]+ ?T", said.text)
        and (
            (said.low or 0) > _MOST_PARAMS
            or any(each.kind == "params" for each in before)
            or any(each.kind == "model" for each in words)
        )
    ):
        return replace(said, kind="tokens")  # "70B on 15T"
    if said.kind == "params" and re.search(r"(?i)activat(?:es?|ing|ed)(?: [a-z]+){0,4} $", text[: said.at]):
        return replace(said, kind="active")
    if (
        said.kind == "time"
        and text[end:].startswith(" each")
        and before
        and before[-1].kind in ("context", "tokens_out")
    ):
        return replace(said, kind="token_time")
    if said.per == "user" and said.text.endswith(" each") and before and before[-1].kind == "devices":
        return replace(said, per="device")
    if (
        said.kind == "bytes"
        and _OF_KV.match(text, end)
        and re.search(r"(?i)\d ?[GMT]i?B\b.*(?:plus|\+|another) $", text[: said.at])
    ):
        return replace(said, kind="kv_bytes")
    if said.kind == "power" and not said.per and _CARD.match(text, end):
        return replace(said, per="device")  # "eight 700 W GPUs"
    if said.kind == "bytes" and not said.per and not said.side:
        counted = (
            bool(before)
            and before[-1].kind == "devices"
            and not text[before[-1].at : said.at].strip().replace(before[-1].text, "")
        )
        if counted or _CARD.match(text, end) or (text[end : end + 1] in " -" and device_at(text, end + 1)):
            return replace(said, kind="card_bytes")
    return said


_AS_BEFORE = {"bytes": "kv_token", "time": "token_time"}
_MOST_ALIKE = 30.0
_MOST_PARAMS = 2e12


def _is_alike(said: Said, kind: str, earlier: Said, text: str) -> bool:
    """Whether a number repeats one of another model: "… 516 KB per token, while Llama 3.1 8B stores 131 KB"."""
    if earlier.kind != kind or earlier.per != said.per or not earlier.low or not said.low:
        return False
    is_new = re.search(
        r"[,;:]|\b(?:and|while|whereas|vs|versus|but|than|of)\b", text[earlier.at + len(earlier.text) : said.at]
    )
    times = said.low / earlier.low
    return bool(is_new) and 1 / _MOST_ALIKE < times < _MOST_ALIKE


def _within(said: Said, text: str) -> list[Word]:
    """Names and topics inside a quantity: the device of "29,500 H100 hours", the format of "3,958 FP8 TFLOPS"."""
    if said.kind not in ("device_time", "flop_rate", "share"):
        return []
    found: list[Word] = []
    for start in re.finditer(r"(?<=[ -])(?=[A-Za-z])", said.text):
        at = said.at + start.start()
        if named := _name(text[: said.at] + said.text.replace("-", " "), at):
            found.append(named[0])
        else:
            _topic(text, at, found)
    return [each for each in found if each.name not in ("machine", "named", "per-device", "each", "turns", "unknown")]


def _name(text: str, at: int) -> tuple[Word, int] | None:
    for kind, find in (("model", model_at), ("device", device_at), ("format", format_at), ("link", link_at)):
        found = find(text, at)
        if found is not None:
            name, end = found
            if kind == "format" and _is_of_cache(text, at, end):
                kind = "kv_format"
            return Word(kind, name, text[at:end], at), end
    return None


def _is_of_cache(text: str, at: int, end: int) -> bool:
    """Whether a format is that of the cache: "INT4 KV", "KV in FP8"."""
    after = re.match(r"[ -](?:KV|kv)\b", text[end:])
    before = re.search(r"(?:KV|kv)(?: cache)?(?: at| in|:|=)? $", text[:at])
    return bool(after or before)


def _labelled(text: str, at: int) -> tuple[Said, int] | None:
    for kind, pattern in _LABELLED:
        found = pattern.match(text, at)
        if found is not None and (kind == "drafts" or not _is_number_of_another(text, found)):
            number = float(found["n"].replace(",", "")) * (-1 if found["sign"] else 1)
            number *= (1024 if kind == "context" else 1000) if found["k"] else 1
            off = rounding(found["n"], False)
            side: Literal["", "least", "most"] = "least" if found["least"] else "most" if found["most"] else ""
            said = Said(kind, number, number, found[0].strip(), off, rounding_of_input(found["n"]), side, at=at)
            return checked(said), found.end()
    return None


def _is_number_of_another(text: str, found: re.Match[str]) -> bool:
    """Whether the number belongs to a unit that follows: "users 45 tok/s"."""
    return (
        re.match(r" ?(?:million|billion|thousand|[MB](?!\w)|tok|GB|GiB|TB|MB|ms|%|[KMGT]i?B)", text[found.end() :])
        is not None
    )


def _topic(text: str, at: int, words: list[Word]) -> int:
    if (found := topic_at(text, at)) is not None:
        topic, end = found
        words.append(Word("topic", topic, text[at:end], at))
        if topic in OPTIMIZERS:
            words.append(Word("optimizer", topic, text[at:end], at))
        return end
    word = _WORD.match(text, at)
    if word is None:
        return at + 1
    bare = re.sub(r"'(?:s|d|ll|re|ve|m)$", "", word[0].strip(".'’*~").lower())
    if not re.search(r"[^\W_]", bare):
        return word.end()
    is_part = (
        words
        and words[-1].kind in ("model", "device")
        and re.fullmatch(r"[ -][A-Z]\S*", text[_end(words[-1]) : word.end()])
    )
    if bare and bare not in MAKERS and (is_part or not is_filler(bare)) and not NUMBER.fullmatch(bare):
        kind = "unread" if not _is_name(text, word) else "family" if _SIZE_NEXT.match(text, word.end()) else "topic"
        words.append(Word(kind, "unknown", word[0].strip("."), at))
    return word.end()


def _end(word: Token) -> int:
    return word.at + len(word.text)


def _is_name(text: str, word: re.Match[str]) -> bool:
    """Whether a word that is not known looks like a name: with digits, or with a capital that begins no sentence."""
    bare = word[0].strip(".'’*~")
    begins = not text[: word.start()].rstrip(' "“(').rstrip() or text[: word.start()].rstrip()[-1] in ".:;!?"
    return bool(re.search(r"\d", bare) or re.search(r"[A-Z]", bare[1:] if begins else bare))
