"""Names that a claim may use: models, devices, formats, and the words that say what a figure is about."""

from __future__ import annotations

import re
from functools import lru_cache

from twinlens.spec.device import list_devices, load_device
from twinlens.spec.model.reference import list_models
from twinlens.theory.weight_format import WEIGHT_FORMATS

USUAL = {8e9: "llama-3.1-8b", 70e9: "llama-3.1-70b", 405e9: "llama-3.1-405b", 671e9: "deepseek-v3"}
"""The model that a bare size is read as, where its layers are needed; other sizes have no usual one."""
MODELS = {
    "gpt-3": "gpt3-175b",
    "gpt 3 175b": "gpt3-175b",
    "deepseek r1": "deepseek-v3",
    "qwen2.5 72b": "qwen2-72b",
    "mixtral": "mixtral-8x7b",
    "llama 2 chat 70b": "llama-2-70b",
}
"""Other names of models of the catalogue, or of models with the same shape."""
DEVICES = {
    "a100": "a100-sxm-80gb", "h100": "h100-sxm-80gb", "h200": "h200-sxm-141gb", "b200": "b200-sxm-180gb",
    "b300": "b300-sxm-288gb", "gh200": "gh200-96gb", "h20": "h20-96gb", "rtx 3090": "rtx-3090",
    "rtx 4090": "rtx-4090", "rtx 5090": "rtx-5090", "a6000": "rtx-a6000",
    "rtx 6000 ada": "rtx-6000-ada", "rtx pro 6000": "rtx-pro-6000-blackwell", "pro 6000": "rtx-pro-6000-blackwell",
    "v100": "v100-sxm2-32gb", "3090": "rtx-3090", "4090": "rtx-4090", "5090": "rtx-5090", "3080": "rtx-3080",
    "4080": "rtx-4080", "mi250": "mi250x", "tpu v5 e": "tpu-v5e", "strix halo": "ryzen-ai-max-395",
    "dgx spark": "gb10",
}  # fmt: skip
"""Short names, and the device of the catalogue that each is read as."""
FORMATS: dict[str, tuple[str, ...]] = {
    "fp32": ("fp32",), "bf16": ("bf16",), "fp16": ("fp16",), "16-bit": ("fp16",), "fp8": ("fp8", "8-bit"),
    "int8": ("int8", "8-bit"),
    "8-bit": ("int8", "8-bit", "q8_0"), "w8a8": ("int8", "8-bit"), "half precision": ("fp16",),
    "single precision": ("fp32",),
    "float16": ("fp16",), "bfloat16": ("bf16",), "32-bit": ("fp32",), "float32": ("fp32",),
    "q8": ("q8_0", "int8", "8-bit"), "q8_0": ("q8_0",), "q6_k": ("q6_k",),
    "q5_k_m": ("q5_k_m",), "q4_k_m": ("q4_k_m",), "q4_0": ("q4_0",), "q4": ("4-bit", "nvfp4", "q4_0", "q4_k_m"),
    "4-bit": ("4-bit", "nvfp4", "q4_0", "q4_k_m"), "int4": ("4-bit", "awq-int4-g128", "int4-g32"),
    "w4a16": ("4-bit", "awq-int4-g128"), "awq": ("awq-int4-g128",), "gptq": ("gptq-int4-g128",),
    "fp4": ("4-bit", "mxfp4", "nvfp4"), "nvfp4": ("nvfp4",), "mxfp4": ("mxfp4", "mxfp4-experts"),
    "nf4": ("nf4-double", "nf4"), "unquantised": ("bf16",), "unquantized": ("bf16",),
    "qlora": ("nf4-double",),
}  # fmt: skip
"""Formats as people write them, and what each may mean; "4-bit" is four bits and nothing else, no scales."""
KV_BYTES = {
    word: WEIGHT_FORMATS[name].matrices / 8
    for word, name in {
        "fp32": "fp32", "bf16": "bf16", "fp16": "fp16", "16-bit": "fp16", "fp8": "fp8", "int8": "int8",
        "8-bit": "int8", "q8_0": "q8_0", "nvfp4": "nvfp4", "q4_0": "q4_0",
    }.items()
} | dict.fromkeys(("int4", "fp4", "q4", "4-bit"), 0.5)  # fmt: skip
"""Bytes per element of the cache; four bits and no scales where the word names no scales."""


def model_at(text: str, at: int) -> tuple[str, int] | None:
    """A model of the catalogue at a place of a text, however its name is written, and where its name ends."""
    owner = _OWNER.match(text, at)
    found = _match(_models(), text, owner.end() if owner else at)
    return (found[0], found[1] + text.startswith("-", found[1])) if found else None


def device_at(text: str, at: int) -> tuple[str, int] | None:
    """A device of the catalogue, or a short name for one: with its maker, board and memory as they are written."""
    maker = _MAKER.match(text, at)
    found = _match(_devices(), text, maker.end() if maker else at)
    if found is None:
        return None
    name, end = found
    board = _BOARD.match(text, end)
    if board is None or not board[0].strip(" -("):
        return found
    words = {word.lower() for word in re.findall(r"[A-Za-z]+|\d+", board[0])}
    whole = DEVICES.get(name, name)
    alike = [each for each in list_devices() if each.split("-")[0] == whole.split("-")[0]]
    size = next((word for word in words if word.isdigit() and int(word) >= 8), None)
    wanted = [
        each
        for each in alike
        if (size is None or round(load_device(each).memory_bytes / 1e9) == int(size))
        and all(word in each for word in words & {"pcie", "nvl", "sxm"})
    ]
    if not wanted:
        return found
    usual = whole if whole in wanted else wanted[-1]
    return usual, board.end()


def format_at(text: str, at: int) -> tuple[str, int] | None:
    """A format as people write it."""
    return _match(_formats(), text, at)


def link_at(text: str, at: int) -> tuple[str, int] | None:
    """A link between devices, with its generation: "NVLink 4", "PCIe Gen5 x16"; "nvlink" where none is said."""
    found = _LINK.match(text, at)
    if found is None:
        port = re.compile(r"(?i:(?:infiniband )?(hdr|ndr|xdr)(?: infiniband)?)(?![\w-])").match(text, at)
        return (f"infiniband-{port[1].lower()}", port.end()) if port else None
    kind = "nvlink" if found["kind"].lower().startswith("nv") else "pcie"
    if kind == "pcie" and not found["n"]:
        return None
    return f"{kind}{found['n'] or ''}", found.end()


_OWNER = re.compile(r"[\w.-]+/(?=[A-Za-z][\w.-]*\d)")
"""The owner of a model on a hub: "meta-llama/"."""
_KIND = r"(?:[ -](?:instruct|it|chat|hf|base|preview|distill|v\d(?:\.\d)?))*"
_MAKER = re.compile(r"(?i:(?:nvidia|geforce|amd|instinct|apple|google|intel|tesla)[ -])+")
_BOARD = re.compile(r"(?i:[ -]\(?(?:sxm\d?|pcie|nvl|\d{2,3} ?GB)\)?(?![\w/]))+")
_LINK = re.compile(
    r"(?i:(?P<kind>NVLink|PCI-?e|PCI Express)(?:[ -]?(?:gen)?[ -]?(?P<n>[3-6])(?:\.0)?)?(?: ?x16)?(?: links?)?)"
    r"(?![\w-])"
)
Words = tuple[tuple[re.Pattern[str], str], ...]


def _match(words: Words, text: str, at: int) -> tuple[str, int] | None:
    for pattern, name in words:
        found = pattern.match(text, at)
        if found is not None:
            return name, found.end()
    return None


def _patterns(names: dict[str, str], more: str = "", ends: str = r"(?![\w-])") -> Words:
    ordered = sorted(names, key=len, reverse=True)
    ends = more + ends
    return tuple(
        (re.compile(rf"(?i:{re.sub(r'[- ]', '[- ]?', re.escape(name).replace(chr(92), ''))}{ends})"), names[name])
        for name in ordered
    )


@lru_cache(maxsize=1)
def _models() -> Words:
    short = {name: name for name in list_models() if any(letter.isdigit() for letter in name)}  # not "small"
    families = ("llama", "llama 3", "llama 3.1", "llama 3.3", "llama3", "llama3.1", "meta llama 3", "meta llama 3.1")
    usual = {f"{family} {size}": f"llama-3.1-{size}" for family in families for size in ("8b", "70b", "405b")}
    return _patterns(usual | MODELS | short, _KIND, r"(?!\w)(?!-(?!(?:[fb]p?\d|int\d|awq|gptq|nvfp4|q\d|\dbit)))")


@lru_cache(maxsize=1)
def _devices() -> Words:
    return _patterns(
        {name: name for name in list_devices()} | {name: name for name in DEVICES},
        "s?",
        r"(?!\w)(?!-(?!\d\d|sxm|pcie|nvl))",
    )


@lru_cache(maxsize=1)
def _formats() -> Words:
    return _patterns({name: name for name in FORMATS}, r"s?(?! per| ?/ ?(?:weight|param)| adam)")
