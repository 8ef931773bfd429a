"""The grammar of a claim: quantities, names and topics in any order; words in between are kept or said to be unread.

claim    = { labelled | quantity | name | topic | filler | unread }
labelled = ("batch" | "context" | "TP" | "head dim" | "layers" …) number
quantity = number unit [ "per user" | "per GPU" ]   (claims/quantity.py)
name     = model | device | format | link           (claims/names.py)
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Literal

from twinlens.claims.names import device_at, format_at, link_at, model_at
from twinlens.claims.plain import plain
from twinlens.claims.quantity import NUMBER, read_quantity
from twinlens.claims.said import UNREADABLE, Claim, Said, Word, checked, rounding, rounding_of_input
from twinlens.claims.words import FILLERS, MAKERS, TOPICS
from twinlens.errors import BadInput
from twinlens.theory.layout import OPTIMIZERS

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
        ("sequences", r"(?i:batch(?:[- ]?size)?|bs|concurrency|users?)(?: of)?", _COUNT),
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
        (r"doubl(?:es|ed)|twice(?: as \w+)?", 2.0),
        (r"tripl(?:es|ed)|3 times", 3.0),
    )
)
_OF_STATES = re.compile(r"(?i:8[ -]?bit|bf16)[ -]?(?i:adam)")
"""A format of an optimizer's states, and not of the weights."""
_YEAR = re.compile(r"(?i)(?:in|since|by|from|of|until) (?:19|20)\d\d(?! ?[\w%$])")
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
    if not claim.said and not claim.words:
        raise BadInput(
            f"nothing in {whole[:60]!r} was understood; a claim has a figure with a unit, such as 45 tok/s or 40 GB",
            code=UNREADABLE,
        )
    return claim


def _read(text: str) -> Claim:
    said: list[Said] = []
    words: list[Word] = []
    unread: list[str] = []
    at = 0
    while at < len(text):
        if gap := _GAP.match(text, at) or _YEAR.match(text, at):
            at = gap.end()
        elif _OF_STATES.match(text, at):
            at = _topic(text, at, words, unread)
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
            said.append(_in_place(labelled[0], text, labelled[1], said, words))
            words += _within(labelled[0], text)
            at = labelled[1]
        else:
            at = _topic(text, at, words, unread)
    return _of_each(Claim(text, tuple(said), tuple(words), tuple(unread)))


def _of_each(claim: Claim) -> Claim:
    """A claim whose "per GPU" or "each user" stands apart from its figure ("Per GPU, …"), joined to the only one."""
    pers: tuple[tuple[str, Literal["user", "device"]], ...] = (("per-device", "device"), ("each", "user"))
    for topic, per in pers:
        apart = [each for each in claim.words if each.name == topic and each.text.lower() != "each"]
        figures = [each for each in claim.said if each.kind in ("bytes", "rate", "kv_bytes", "power")]
        if apart and per == "user" and {"sequences", "context"} <= {each.kind for each in claim.said}:
            claim = replace(claim, words=tuple(each for each in claim.words if each not in apart))  # of the context
        elif apart and len(figures) == 1 and figures[0].per in ("", per):
            said = tuple(replace(each, per=per) if each == figures[0] else each for each in claim.said)
            claim = replace(claim, said=said, words=tuple(each for each in claim.words if each not in apart))
    return claim


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
    if said.kind == "time" and _STEP_TIME.search(text[: said.at]):
        return replace(said, kind="token_time")
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
            _topic(text, at, found, [])
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
    return re.match(r" ?(?:tok|GB|GiB|TB|MB|ms|%|[KMGT]i?B)", text[found.end() :]) is not None


def _topic(text: str, at: int, words: list[Word], unread: list[str]) -> int:
    for pattern, topic in TOPICS:
        found = pattern.match(text, at)
        if found is not None:
            words.append(Word("topic", topic, found[0], at))
            if topic in OPTIMIZERS:
                words.append(Word("optimizer", topic, found[0], at))
            return found.end()
    word = _WORD.match(text, at)
    if word is None:
        return at + 1
    bare = word[0].strip(".'’*~").lower().removesuffix("'s")
    if bare and bare not in FILLERS and not NUMBER.fullmatch(bare):
        if _is_name(text, word) and bare not in MAKERS:
            kind = "family" if _SIZE_NEXT.match(text, word.end()) else "topic"
            words.append(Word(kind, "unknown", word[0].strip("."), at))
        else:
            unread.append(word[0].strip("."))
    return word.end()


def _is_name(text: str, word: re.Match[str]) -> bool:
    """Whether a word that is not known looks like a name: with digits, or with a capital that begins no sentence."""
    bare = word[0].strip(".'’*~")
    begins = not text[: word.start()].rstrip(' "“(').rstrip() or text[: word.start()].rstrip()[-1] in ".:;!?"
    return bool(re.search(r"\d", bare) or re.search(r"[A-Z]", bare[1:] if begins else bare))
