"""Names that a claim may use: models, devices, formats, and the words that say what a figure is about."""

from __future__ import annotations

import re
from functools import lru_cache

from twinlens.spec.device import list_devices
from twinlens.spec.model.reference import list_models

USUAL = {8e9: "llama-3.1-8b", 70e9: "llama-3.1-70b", 405e9: "llama-3.1-405b", 671e9: "deepseek-v3"}
"""The model that a bare size is read as, where its layers are needed; other sizes have no usual one."""
DEVICES = {
    "a100": "a100-sxm-80gb", "h100": "h100-sxm-80gb", "h200": "h200-sxm-141gb", "b200": "b200-sxm-180gb",
    "b300": "b300-sxm-288gb", "gh200": "gh200-96gb", "h20": "h20-96gb", "rtx 3090": "rtx-3090",
    "rtx 4090": "rtx-4090", "rtx 5090": "rtx-5090", "a6000": "rtx-a6000",
    "rtx 6000 ada": "rtx-6000-ada", "rtx pro 6000": "rtx-pro-6000-blackwell", "pro 6000": "rtx-pro-6000-blackwell",
    "v100": "v100-sxm2-32gb", "3090": "rtx-3090", "4090": "rtx-4090", "5090": "rtx-5090",
}  # fmt: skip
"""Short names, and the device of the catalogue that each is read as."""
FORMATS: dict[str, tuple[str, ...]] = {
    "fp32": ("fp32",), "bf16": ("bf16",), "fp16": ("fp16",), "16-bit": ("fp16",), "fp8": ("fp8",), "int8": ("int8",),
    "8-bit": ("int8", "q8_0"), "w8a8": ("int8",), "q8": ("int8", "q8_0"), "q8_0": ("q8_0",), "q6_k": ("q6_k",),
    "q5_k_m": ("q5_k_m",), "q4_k_m": ("q4_k_m",), "q4_0": ("q4_0",), "q4": ("4-bit", "nvfp4", "q4_0", "q4_k_m"),
    "4-bit": ("4-bit", "nvfp4", "q4_0", "q4_k_m"), "int4": ("4-bit", "awq-int4-g128", "int4-g32"),
    "w4a16": ("4-bit", "awq-int4-g128"), "awq": ("awq-int4-g128",), "gptq": ("gptq-int4-g128",),
    "fp4": ("4-bit", "mxfp4", "nvfp4"), "nvfp4": ("nvfp4",), "mxfp4": ("mxfp4",), "nf4": ("nf4-double", "nf4"),
    "qlora": ("nf4-double",),
}  # fmt: skip
"""Formats as people write them, and what each may mean; "4-bit" is four bits and nothing else, no scales."""
KV_BYTES = {"fp32": 4.0, "bf16": 2.0, "fp16": 2.0, "16-bit": 2.0, "fp8": 1.0, "int8": 1.0, "8-bit": 1.0,
            "q8_0": 34 / 32,
            "int4": 0.5, "fp4": 0.5, "q4": 0.5, "4-bit": 0.5, "nvfp4": 9 / 16, "q4_0": 18 / 32}  # fmt: skip
"""Bytes per element of the cache."""
OPTIMIZERS = {"adamw": 8.0, "adamw-8bit": 2.0, "adamw-bf16": 4.0, "sgd": 0.0, "lion": 4.0, "muon": 4.0}


def model_at(text: str, at: int) -> tuple[str, int] | None:
    """A model of the catalogue at a place of a text, with hyphens or blanks, and where its name ends."""
    return _match(_models(), text, at)


def device_at(text: str, at: int) -> tuple[str, int] | None:
    """A device of the catalogue, or a short name for one."""
    return _match(_devices(), text, at)


def format_at(text: str, at: int) -> tuple[str, int] | None:
    """A format as people write it."""
    return _match(_formats(), text, at)


def link_at(text: str, at: int) -> tuple[str, int] | None:
    """A link between devices, with its generation: "NVLink 4", "PCIe Gen5 x16"; "nvlink" where none is said."""
    found = _LINK.match(text, at)
    if found is None:
        return None
    kind = "nvlink" if found["kind"].lower().startswith("nv") else "pcie"
    if kind == "pcie" and not found["n"]:
        return None
    return f"{kind}{found['n'] or ''}", found.end()


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


def _patterns(names: dict[str, str], more: str = "") -> Words:
    ordered = sorted(names, key=len, reverse=True)
    ends = rf"{more}(?![\w-])"
    return tuple(
        (re.compile(rf"(?i:{re.sub(r'[- ]', '[- ]?', re.escape(name).replace(chr(92), ''))}){ends}"), names[name])
        for name in ordered
    )


@lru_cache(maxsize=1)
def _models() -> Words:
    short = {name: name for name in list_models() if any(letter.isdigit() for letter in name)}  # not "small"
    families = ("llama", "llama 3", "llama 3.1")  # 3 and 3.1 have the same layers
    usual = {f"{family} {size}": f"llama-3.1-{size}" for family in families for size in ("8b", "70b", "405b")}
    return _patterns(usual | short)


@lru_cache(maxsize=1)
def _devices() -> Words:
    return _patterns({name: name for name in list_devices()} | {name: name for name in DEVICES}, "s?")


@lru_cache(maxsize=1)
def _formats() -> Words:
    return _patterns({name: name for name in FORMATS})
