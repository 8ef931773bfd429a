"""The format that a GPU kernel's name tells: a second witness, and the only one inside a captured graph.

cuBLAS, CUTLASS and cuDNN write operand formats into their names. Most names of TF32 kernels do not have "tf32" in them:
`cutlass_80_tensorop_s1688gemm_*` is the usual one, where 1688 is the shape of one TF32 instruction and the `s` says
that sums are single precision; with `fp16_` or `bf16_` in the name the operands are those.
"""

from __future__ import annotations

import re

# The first that fits counts: names of narrow formats also hold "f32", the format of their sums.
_FORMATS: tuple[tuple[str, str], ...] = (
    (r"e4m3|e5m2|fp8|qgmma", "fp8-e4m3"),
    (r"imma|s8_|i8816|i16832|int8|_i8_", "int8"),
    (r"bf16|bfloat16|nvjet_[a-z]*tst", "bf16"),
    (r"fp16|f16_|f16f16|h884|h1688|h16816|hgemm|__half|hmma|nvjet_[a-z]*hs[hs]", "fp16"),
    (r"tf32|s1688", "tf32"),
    (r"sgemm|f32f32_f32f32|simt|nvjet_[a-z]*sss|gemv.*float", "fp32"),
)
_PRODUCT = re.compile(
    r"gemm|gemv|nvjet|cutlass|xmma|splitk|wgrad|dgrad|fprop|conv|_mm(?:_|$)|_mv(?:_|$)", re.IGNORECASE
)


def kernel_format(name: str) -> str | None:
    """The operand format in a matrix kernel's name; None for other kernels and for names that do not say."""
    if not _PRODUCT.search(name) or "reduce" in name.lower():
        return None
    return next((fmt for pattern, fmt in _FORMATS if re.search(pattern, name, re.IGNORECASE)), None)


def is_product(name: str) -> bool:
    """Whether a kernel's name is that of a matrix product or convolution."""
    return bool(_PRODUCT.search(name))
