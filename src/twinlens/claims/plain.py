"""A sentence in plain numbers: decimal commas, words for numbers, powers of ten and money as the grammar reads them."""

from __future__ import annotations

import re

from twinlens.errors import BadInput

_UNITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
          "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen")  # fmt: skip
_TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_WORDS = {
    **{word: number for number, word in enumerate(_UNITS)},
    **{word: 10 * number for number, word in enumerate(_TENS, 2)},
}
_SMALL = "|".join(sorted(_WORDS, key=len, reverse=True))
_ONES = "|".join(_UNITS[1:10])
_WORD = re.compile(
    rf"(?i)(?<![\w-])(?P<a>{_SMALL}|a(?= hundred))(?:[ -](?P<b>{_ONES}))?"
    rf"(?:(?P<c>[ -]hundred)(?:[ -](?:and[ -])?(?P<d>{_SMALL})(?:-(?P<e>{_ONES}))?)?)?(?![\w])"
)
_ONE = re.compile(
    r"(?i) (?:million|billion|trillion|thousand|hundred|users?|requests?|gpus?|cards?|devices?|nodes?|cents?|streams?"
    r"|sequences?|dollars?|tokens?|[kM]?Wh|watts?|joules?|days?|hours?|weeks?|months?|years?"
    r"|[habltv]\d|b\d|mi\d|rtx|gh?\d|\d+ ?GB|"
    r"\d{4}(?!\d))"
)
"""What follows "one" where it counts: "one user", and not "one way"."""
_SUPER = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "0123456789-")
_POWER = re.compile(
    r"(?<![\w.])(?:(\d+(?:[.,]\d+)?) ?[×x·*] ?)?10(?:\^|\*\*)?(?:([-⁻]?[⁰¹²³⁴⁵⁶⁷⁸⁹]+)|(?<=[\^*])(-?\d+))"
)
_COMMA = re.compile(r"(?<![\d.,])(?:\d{1,3},\d{1,2}|\d+,\d{4,}|0,\d+|\d{4,},\d+|\d{1,3}(?:\.\d{3})+,\d+)(?![\d,]*\d)")
_EITHER = re.compile(r"(?<![\d.,])[1-9]\d{0,2},\d{3}(?![\d,])")
_POINT = re.compile(
    r"(?<![\d.,])([1-9]\d{0,2}\.\d{3})(?= ?(?:tok(?:en)?s?(?:/| per)|t/s|(?:W|watts?|TFLOPS|GB/s)(?!\w)))"
)
"""A number that is one of thousands in Europe, and has three decimals elsewhere, where either may be meant."""
_COUNT = re.compile(r"(?<![\d.,])(\d{1,3})\.(\d{3})(?= (?:tok(?:ens)?(?!\S)|users|requests|GPUs|steps|samples))")
_AMOUNT = r"\d[\d,]*(?:\.\d+)?(?:[eE]\d+)?"
_SCALE = r"(?: ?(?:k|K|M|B|bn|million|billion|thousand|mn|m)(?![\w]))?"
_COIN = re.compile(
    rf"(?i)(?P<n>{_AMOUNT})(?P<s>{_SCALE})[ -]?(?:US[ -]?)?(?:dollars?(?!\w)|USD(?!\w)|euros?(?!\w)|EUR(?!\w)|€|"
    rf"\$(?!\d))"
)
_CENTS = re.compile(rf"(?i)(?P<n>{_AMOUNT}) ?(?:¢|ct(?!\w)|cents?(?!\w)|c(?= per| a |/))")
_CODE = re.compile(rf"(?:US\$|USD ?|EUR ?|€ ?|\$ )(?={_AMOUNT})")
_SYMBOLS = {"N": "parameters", "D": "tokens"}
_A_TIME = re.compile(
    r"(?i)\b(takes?|took|in|within|for|lasts?|about) an? (?:whole |full |entire )?"
    r"(?=(?:hour|day|week|month|year)(?!\w))"
)
_NEVER = (
    r"(?i)\b(?:(?:can|could|wo|would|will|does|do)(?: ?n[o']t| not| never)|can't|won't|cannot|never)(?: \w+){0,1}? "
)
_EXCEED = re.compile(
    rf"{_NEVER}(?:exceeds?|beat|surpass|pass|(?:be |go |run |get )?(?:above|over|beyond|past|more than|faster than))"
    rf"(?= ~?(?:about |around )?\$?\d)"
)
_BELOW = re.compile(
    rf"{_NEVER}(?:(?:be |go |get |drop |fall )?(?:below|under|less than|beneath|faster than))(?= ~?(?:about |"
    rf"around )?\$?\d[\d.,]* ?m?s)"
)


def plain(text: str) -> str:
    """The sentence with every number as 1,234.5e6, and every price as $2.50.

    Raises BadInput where a comma may be one of thousands or of decimals, and other numbers of the sentence do not tell.
    """
    text = re.sub(r"(?<=\d)['\u2009\u202f\u00a0](?=\d{3})", "", text).replace("‑", "-").replace("’", "'")
    text = re.sub(r"\b2:4\b", "structured", text)
    text = _POWER.sub(lambda m: f"{m[1] or 1}e{(m[2] or m[3]).translate(_SUPER)}", text)
    text = _decimals(" ".join(text.split()))
    text = _WORD.sub(lambda m: _number(m, text), text)
    text = re.sub(r"(?i)\b(?:a (?:pair|couple) of|dual) (?=[\w-])", "2 ", text)
    text = re.sub(r"(?i)\b(?:2|both) (?=moments?(?!\w))", "", text)
    text = re.sub(r"(?<![\w.,])(\d[\d.]*)(?= of \d[\d.]* (billion|million|trillion) param)", r"\1 \2", text)
    text = re.sub(r"(?i)\bone(?= and a half )", "1", text)
    text = re.sub(r"(?i)(?<![\w.,])(\d+) and a half (?=[\w-])", r"\1.5 ", text)
    text = re.sub(r"(?i)\b(?:half a|a half) dozen (?=[\w-])", "6 ", text)
    text = re.sub(r"(?i)(?<![\w.,])(?:a|(\d+)) dozen (?=[\w-])", lambda m: f"{12 * int(m[1] or 1)} ", text)
    text = re.sub(r"(\d) hundred(?![\w])", r"\g<1>00", text)
    text = re.sub(r"(?<![\d.,])(\d+) thousand(?![\w])", r"\g<1>000", text)
    text = re.sub(r"(?i)\bmindestens\b", "at least", re.sub(r"(?i)\bhöchstens\b", "at most", text))
    text = re.sub(r"(?<=\d)-(?=(?:million|billion|trillion|thousand|bit|[a-z]+ parameter))", " ", text)
    text = re.sub(r"(?i)(?:\bhalf a|\ba half) (?=million|billion|trillion)", "0.5 ", text)
    text = re.sub(r"(?i)\ban? (?=(?:million|billion|trillion|thousand|cent|dollar|[kmgtp]\w+byte)(?!\w))", "1 ", text)
    text = _A_TIME.sub(r"\1 1 ", text)
    text = re.sub(r"\b([ND]) ?= ?(\d[\d.]* ?[BMT])\b", lambda m: f"{m[2]} {_SYMBOLS[m[1]]}", text)
    text = re.sub(r"(\d)( ?(?:[BMKkTG]B?|ms|%))(?: ?[-–] ?| to )(?=(\d[\d.]*)\2(?![A-Za-z0-9]))", r"\1-", text)
    text = _EXCEED.sub("is at most", _BELOW.sub("is at least", text))
    text = _CODE.sub("$", text)
    text = _CENTS.sub(lambda m: f"${float(m['n'].replace(',', '')) / 100:g}", text)
    return rephrased(_COIN.sub(lambda m: f"${m['n']}{m['s']}", text))


def _decimals(text: str) -> str:
    """A comma before one, two or at least four digits is a decimal one; then a point before three is of thousands."""
    if _COMMA.search(text):
        if found := _EITHER.search(text):
            raise BadInput(
                f"{found[0]!r} may be {found[0].replace(',', '')} or {found[0].replace(',', '.')}: other numbers of "
                "the sentence have decimal commas; write it without one",
                code="TL230",
            )
        text = re.sub(r"(?<![\d.,])(\d{1,3})((?:\.\d{3})+)(?![\d.])", lambda m: m[1] + m[2].replace(".", ""), text)
        return re.sub(r"(?<=\d),(?=\d)", ".", text)
    if (found := _POINT.search(text)) is not None:
        raise BadInput(
            f"{found[1]!r} may be {found[1].replace('.', '')} or {found[1].rstrip('0').rstrip('.')}: write it without "
            "a point, or with fewer digits behind it",
            code="TL230",
        )
    text = re.sub(r"(?<![\d.,])\d{1,3}(?:\.\d{3}){2,}(?![\d.])", lambda m: m[0].replace(".", ""), text)
    return _COUNT.sub(r"\1\2", text)


def _number(match: re.Match[str], text: str) -> str:
    first = match["a"].lower()
    if first in ("one", "zero") and not match["c"] and not _ONE.match(text, match.end()):
        return match[0]
    value = 1 if first == "a" else _WORDS[first]
    if match["b"]:
        if value < 20:
            return match[0]
        value += _WORDS[match["b"].lower()]
    value *= 100 if match["c"] else 1
    value += _WORDS[match["d"].lower()] if match["d"] else 0
    value += _WORDS[match["e"].lower()] if match["e"] else 0
    return str(value)


# Phrases of a claim as its grammar reads them: a unit behind its number, and no denials of what is not claimed.

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
_SIZE_WORD = r"(?P<scale>(?:(?:1M|1 million|million|thousand|billion|output|input|generated|useful)[ -])*)"
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
    rf"(?i)\b(?:per|every|each|(?P<a>an?|one))[ -]{_SIZE_WORD}{_UNIT}"
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
