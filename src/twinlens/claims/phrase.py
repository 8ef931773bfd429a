"""Phrases of a claim as its grammar reads them: a unit behind its number, and no denials of what is not claimed."""

from __future__ import annotations

import re

_ASKED = re.compile(r"(?i)(?:^|(?<=, ))((?:is|are|does|do|did|was|would|could|should|has|have)|wo|ca)n't\b")
_NO = re.compile(r"(?:^|(?<=\? )|(?<=\. ))(?:No|Nope|Well no|Yes|Yep)(?: wait)?[,:.!] ")
"""Words that deny nothing of what follows: "Isn't it …?", "No, …"."""
_ABOUT = r"(?:~|about |around |roughly |nearly )?"
_CONTRAST = re.compile(
    rf"(?i)\b(?:not|nicht) ([a-z]+ )?{_ABOUT}\$?\d[^,;:.]{{0,25}}?,? (?:but|sondern|rather)(?: rather)? "
    r"(?=\D{0,12}\d)"
)
"""What a number is not, before what it is: "not 10 but 5"."""
_HOURS_AT = re.compile(
    r"(?i)\b(GPU[- ]hours?) (at|for|×|@) (\$\d[\d.]*)(?![\d.]| ?(?:/|per\b|an?\b|each|[kMB]|million|billion))"
)
_A_PERIOD = re.compile(r"^An? (?=(?:hour|day|week|month|year) (?:on|of|with)\b)")
_SCALE = r"(?P<scale>(?:(?:1M|1 million|million|thousand|billion|output|input|generated|useful)[ -])*)"
_UNIT = (
    r"(?P<unit>tokens?|GPU[- ]hour|kWh|kilowatt[ -]hour|request|query|step|GPU|card|accelerator|user|node|server|"
    r"parameter|param|weight)(?: cache| price| is)?"
)
_DOES = (
    r"costs?|takes?|needs?|requires?|adds?|stores?|uses?|consumes?|occup(?:y|ies)|draws?|gets?|holds?|reads?|spends?|"
    r"sees?|burns?|has|have|sells for|goes for"
)
_IS = rf"is|was|are|{_DOES}|about|around|roughly|only|just|of|comes? to|works? out (?:to|at)|for"
_NUMBER = (
    rf"(?P<n>{_ABOUT}\$?\d[\d,]*(?:\.\d+)?(?<!,)(?:e\d+)?(?: ?[-–] ?\$?\d+(?:\.\d+)?)?(?: ?(?:[kKMGTP]?i?[BWJ]|"
    r"[kKMB]? ?tok(?:en)?s?(?:/s(?:ec)?| per second| a second)?|[mk]?Wh|kW|mJ|[KkMB]|t/s|ms|µs|s|[GTP]?FLOPS?|bytes?|"
    r"[Kk]ilobytes?|[Jj]oules?|million|thousand|billion))?)(?![\w/%]|[.,]\d)(?! ?(?:/|per |a |an |each|x |×|\* |-?bit))"
)
_LABEL = re.compile(
    rf"(?i)\b(?:per|every|each|(?P<a>an?|one))[ -]{_SCALE}{_UNIT}"
    rf"(?(a)\s+(?:{_DOES})(?:\s+(?:about|around|roughly|only|just))*|(?:\s+(?:{_IS})\b|\s*[:=])+)\s+{_NUMBER}"
)
"""A unit before its number: "per million tokens: $0.28", "a GPU-hour costs $2", "every token adds 320 KiB"."""
_EACH_OF = re.compile(
    r"(?i)\b(?:each|every one) of (?:the |our |these )?(\d[\d,]*) (user|GPU|card|node|request)s "
    rf"((?:{_DOES})(?: about| around)? ){_NUMBER}"
)
"""Whose number it is before it: "each of 32 users needs 1.07 GB"."""
_DONE = re.compile(
    r"(?i)(?<=[\w%]) (?:is|are|was|were|gets?|get) (?:produced|generated|accepted|emitted|spent|used|needed|consumed|"
    r"required|stored|read|charged|paid|drawn|processed|reached|added)(?= (?:per|for each|for every|each|every|an?) )"
)
_OWN = re.compile(r"[\d$][\w.,/%]*(?: (?!(?:when|if|where|and|with|as|so|because|since|while|then)\b)[\w%/-]+){0,3} $")
"""A number before a unit, which is its own: "700 W at $0.10 per kWh costs $0.07"."""


def rephrased(text: str) -> str:
    """The sentence with units behind their numbers, and without what only asks or contrasts."""
    text = _NO.sub("", _ASKED.sub(r"\1", text) if text.endswith("?") else text)
    text = _CONTRAST.sub(lambda match: match[1] or "", text)
    text = _A_PERIOD.sub("1 ", _HOURS_AT.sub(r"\1 \2 \3/GPU-hour", text))
    text = _EACH_OF.sub(r"\1 \2s \3\g<n> per \2", text)
    return _LABEL.sub(_labelled, _DONE.sub("", text))


def _labelled(match: re.Match[str]) -> str:
    has_own = _OWN.search(match.string[: match.start()])
    return match[0] if has_own else f"{match['n']} per {match['scale']}{match['unit']}"
