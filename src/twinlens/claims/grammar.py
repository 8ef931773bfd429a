"""The grammar of a claim: quantities, names and topics in any order; words in between are kept or said to be unread.

claim    = { labelled | quantity | name | topic | filler | unread }
labelled = ("batch" | "context" | "TP" | "head dim" | "layers") number
quantity = number unit                       (claims/quantity.py)
name     = model | device | format | link    (claims/names.py)
"""

from __future__ import annotations

import re
from dataclasses import replace

from twinlens.claims.names import OPTIMIZERS, device_at, format_at, link_at, model_at
from twinlens.claims.quantity import NUMBER, read_quantity
from twinlens.claims.said import UNREADABLE, Claim, Said, checked
from twinlens.claims.words import FILLERS, TOPICS
from twinlens.errors import BadInput

_MOST_LETTERS = 1000
_WORD = re.compile(r"[^\s,;:()\[\]?!\"“”]+")
_GAP = re.compile(r"[\s,;:()\[\]?!\"“”.=+/&]+")
_COUNT = r"\s*(?:of|size|=|:)*\s*(?P<sign>-)?(?P<n>\d[\d,]*)\s?(?P<k>[kK])?(?![\d.]*\w|\.\d)"
_LABELLED = tuple(
    (kind, re.compile(rf"(?:{words}){_COUNT}"))
    for kind, words in (
        ("sequences", r"(?i:batch(?: size)?|bs|concurrency|users?)(?: of)?"),
        ("context", r"(?i:context(?: length)?|ctx|seq(?:uence)?[ _-]?len(?:gth)?)(?: of)?"),
        ("devices", r"(?:TP|tp|tensor[ -]parallel)[ -]?"),
        ("head_dim", r"(?i:head[ _-]dim(?:ension)?)"),
        ("layers", r"(?i:layers)"),
        ("kv_heads", r"(?i:kv[ _-]heads)"),
    )
)
_TIMES = tuple(
    (re.compile(rf"(?i:{words})(?![\w-])"), times)
    for words, times in ((r"doubl(?:es|ed)|twice(?: as \w+)?", 2.0), (r"tripl(?:es|ed)|three times", 3.0))
)
_OF_STATES = re.compile(r"(?i:8[ -]?bit|bf16)[ -]?(?i:adam)")
"""A format of an optimizer's states, and not of the weights."""
_MODEL_END = re.compile(r"(?![\w-])")


def read_claim(text: str) -> Claim:
    """A claim from a sentence. Raises BadInput for what is empty, endless, unit-less, zero, negative or absurd."""
    plain = " ".join(text.split()).replace("24/7", "24 h/day")
    if not plain:
        raise BadInput(
            'claim what? Give a sentence: twinlens claim "70B Q4 does 45 tok/s on 1.79 TB/s"', code=UNREADABLE
        )
    if len(plain) > _MOST_LETTERS:
        raise BadInput(f"a claim is a sentence of at most {_MOST_LETTERS} letters, not {len(plain):,}", code=UNREADABLE)
    claim = _read(plain)
    if not claim.said and not claim.topics and not claim.names:
        raise BadInput(
            f"nothing in {plain[:60]!r} was understood; a claim has a figure with a unit, such as 45 tok/s or 40 GB",
            code=UNREADABLE,
        )
    return claim


def _read(text: str) -> Claim:
    said: list[Said] = []
    names: dict[str, list[str]] = {}
    topics: set[str] = set()
    unread: list[str] = []
    at = 0
    while at < len(text):
        if gap := _GAP.match(text, at):
            at = gap.end()
            continue
        if _OF_STATES.match(text, at):
            at = _topic(text, at, topics, names, unread)
        elif found := _name(text, at):
            kind, name, at = found
            names.setdefault(kind, []).append(name)
        elif multiplied := _multiplied(text, at):
            said.append(multiplied[0])
            at = multiplied[1]
        elif (labelled := _labelled(text, at)) or (labelled := read_quantity(text, at)):
            said.append(_factor(labelled[0]) if "device" in names else labelled[0])
            at = labelled[1]
        else:
            at = _topic(text, at, topics, names, unread)
    return Claim(
        text, tuple(said), {kind: tuple(each) for kind, each in names.items()}, frozenset(topics), tuple(unread)
    )


def _multiplied(text: str, at: int) -> tuple[Said, int] | None:
    """ "doubles", "twice as fast", "triples": a ratio in a word."""
    for pattern, times in _TIMES:
        if (found := pattern.match(text, at)) is not None:
            return Said("ratio", times, times, found[0]), found.end()
    return None


def _factor(said: Said) -> Said:
    """ "1.4x" before a second device is a ratio, not a count: "H200 is 1.4x H100"."""
    return replace(said, kind="ratio") if said.kind == "devices" and said.text[-1:] in "x×" else said


def _name(text: str, at: int) -> tuple[str, str, int] | None:
    for kind, find in (("model", model_at), ("device", device_at), ("format", format_at), ("link", link_at)):
        found = find(text, at)
        if found is not None:
            name, end = found
            if kind == "format" and _is_of_cache(text, at, end):
                kind = "kv_format"
            return kind, name, end
    return None


def _is_of_cache(text: str, at: int, end: int) -> bool:
    """Whether a format is that of the cache: "INT4 KV", "KV in FP8"."""
    after = re.match(r"[ -](?:KV|kv)\b", text[end:])
    before = re.search(r"(?:KV|kv)(?: cache)?(?: at| in|:|=)? $", text[:at])
    return bool(after or before)


def _labelled(text: str, at: int) -> tuple[Said, int] | None:
    for kind, pattern in _LABELLED:
        found = pattern.match(text, at)
        if found is not None and not _is_number_of_another(text, found):
            number = float(found["n"].replace(",", "")) * (-1 if found["sign"] else 1)
            number *= (1024 if kind == "context" else 1000) if found["k"] else 1
            return checked(Said(kind, number, number, found[0].strip())), found.end()
    return None


def _is_number_of_another(text: str, found: re.Match[str]) -> bool:
    """Whether the number belongs to a unit that follows: "users 45 tok/s"."""
    return re.match(r" ?(?:tok|GB|GiB|TB|MB|ms|%|[KMGT]i?B)", text[found.end() :]) is not None


def _topic(text: str, at: int, topics: set[str], names: dict[str, list[str]], unread: list[str]) -> int:
    for pattern, topic in TOPICS:
        found = pattern.match(text, at)
        if found is not None:
            topics.add(topic)
            if topic in OPTIMIZERS:
                names.setdefault("optimizer", []).append(topic)
            return found.end()
    word = _WORD.match(text, at)
    if word is None:
        return at + 1
    bare = word[0].strip(".'’*~").lower()
    if bare and bare not in FILLERS and not NUMBER.fullmatch(bare):
        unread.append(word[0].strip("."))
    return word.end()
