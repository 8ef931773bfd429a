"""The format that a GPU kernel's name tells: a second witness, and the only one inside a captured graph.

cuBLAS, CUTLASS and cuDNN write operand formats into their names. Most names of TF32 kernels do not have "tf32" in them:
`cutlass_80_tensorop_s1688gemm_*` is the usual one, where 1688 is the shape of one TF32 instruction and the `s` says
that sums are single precision; with `fp16_` or `bf16_` in the name the operands are those.

cuBLAS 12.4 and later says `nvjet_CODE_` (from CUDA 12.9 on `nvjet_sm90_CODE_`, by the board's generation), where CODE
has a letter for each tensor: three are operands, sums and output, five the two operands, an addend, sums and output. So
`tst` and `tss` are bf16 by bf16, `hsh` fp16, `qqtst` and `qqhsh` fp8, `ootst` 4 bits, `sss_tf32` tf32. `Avec16UE4M3`
further on is the scale of a block of 16, `Avec32UE8M0` that of 32. All of these were read in public traces of H100,
B200, B300 and RTX PRO 6000.
"""

from __future__ import annotations

import re

_NVJET = re.compile(r"nvjet_(?:sm\d+[a-z]?_)?([a-z]{3,5})_(.*)", re.IGNORECASE | re.DOTALL)
_OPERANDS = {"t": "bf16", "h": "fp16", "s": "fp32", "q": "fp8-e4m3", "o": "fp4"}
_OF_BLOCKS = {("fp4", "16ue4m3"): "nvfp4", ("fp4", "32ue8m0"): "mxfp4", ("fp8-e4m3", "32ue8m0"): "mxfp8"}
# The first that fits counts: names of narrow formats also hold "f32", the format of their sums, and "e4m3", that of
# their blocks' scales.
_FORMATS: tuple[tuple[str, str], ...] = (
    (r"ue4m3xf4|ue4m3xe2m1|nvfp4", "nvfp4"),
    (r"ue8m0xf4|ue8m0xe2m1|mxfp4", "mxfp4"),
    (r"ue8m0xe4m3|ue8m0xe5m2|ue8m0xf8|mxfp8", "mxfp8"),
    (r"e2m1|fp4", "fp4"),
    (r"e4m3|e5m2|fp8|qgmma", "fp8-e4m3"),
    (r"imma|s8_|i8816|i16832|int8|_i8_", "int8"),
    (r"bf16|bfloat16", "bf16"),
    (r"fp16|f16_|f16f16|h884|h1688|h16816|hgemm|__half|hmma", "fp16"),
    (r"tf32|s1688", "tf32"),
    (r"sgemm|f32f32_f32f32|simt|gemv.*float", "fp32"),
)
_PRODUCT = re.compile(
    r"gemm|gemv|nvjet|cutlass|xmma|splitk|wgrad|dgrad|fprop|conv|_mm(?:_|$)|_mv(?:_|$)|bmm_e2m1", re.IGNORECASE
)


def kernel_format(name: str) -> str | None:
    """The operand format in a matrix kernel's name; None for other kernels and for names that do not say."""
    if not _PRODUCT.search(name) or "reduce" in name.lower():
        return None
    if jet := _NVJET.search(name):
        return _of_nvjet(jet[1].lower(), jet[2].lower())
    return next((fmt for pattern, fmt in _FORMATS if re.search(pattern, name, re.IGNORECASE)), None)


def _of_nvjet(code: str, rest: str) -> str | None:
    """The format of both operands; None where they differ, and for a letter that no trace explains."""
    operands = {_OPERANDS.get(letter) for letter in (code[:2] if len(code) == 5 else code[:1])}
    if len(operands) != 1 or (known := operands.pop()) is None:
        return None
    if known == "fp32":
        return "tf32" if "tf32" in rest else "fp32"
    scale = re.search(r"avec(\d+u?e\d+m\d+)", rest)
    return _OF_BLOCKS.get((known, scale[1]), known) if scale else known


def is_product(name: str) -> bool:
    """Whether a kernel's name is that of a matrix product or convolution."""
    return bool(_PRODUCT.search(name))
