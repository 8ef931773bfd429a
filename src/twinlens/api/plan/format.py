"""Formats as people write them, and what each is taken for, in weights and in predictions."""

from __future__ import annotations

from twinlens.planning.prediction.work import spoken

_USUAL = {
    "16-bit": "bf16", "8-bit": "int8", "4-bit": "awq-int4-g128", "int4": "awq-int4-g128", "awq": "awq-int4-g128",
    "gptq": "gptq-int4-g128", "fp4": "nvfp4", "q4": "q4_k_m", "q8": "q8_0",
}  # fmt: skip


def usual_format(word: str) -> str:
    """The format of weights that a word is taken for; the word itself where it is none of the usual ones."""
    plain = word.strip().lower()
    return _USUAL.get(plain, plain)


def predicted_format(word: str) -> str:
    """The same as predictions call it."""
    return spoken(usual_format(word))
