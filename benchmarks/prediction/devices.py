"""Spellings of devices in public tables, resolved to the catalogue of devices."""

from __future__ import annotations

import re
from functools import lru_cache

from twinlens.spec.device import Device, list_devices, load_device


@lru_cache(maxsize=1024)
def device_of(text: str) -> Device | None:
    """The device that a table calls so; None for an unknown or a mixed one."""
    name = device_name(text)
    return load_device(name) if name in list_devices() else None


PATTERNS: tuple[tuple[str, str], ...] = (
    (r"gb300", "gb300"),
    (r"gb200", "gb200"),
    (r"gh200", "gh200-96gb"),
    (r"b300", "b300-sxm-288gb"),
    (r"b200", "b200-sxm-180gb"),
    (r"h200.*nvl", "h200-nvl-141gb"),
    (r"h200", "h200-sxm-141gb"),
    (r"\bh20\b", "h20-96gb"),
    (r"gh200.*144", "gh200-144gb"),
    (r"h100.*nvl", "h100-nvl-94gb"),
    (r"h100.*pcie", "h100-pcie-80gb"),
    (r"h100|h800", "h100-sxm-80gb"),
    (r"a100.*pcie.*40", "a100-pcie-40gb"),
    (r"a100.*pcie", "a100-pcie-80gb"),
    (r"a100.*40", "a100-sxm-40gb"),
    (r"a100", "a100-sxm-80gb"),
    (r"rtx *pro *6000|pro 6000", "rtx-pro-6000-blackwell"),
    (r"rtx *pro *5000", "rtx-pro-5000-blackwell-72gb"),
    (r"6000 *ada", "rtx-6000-ada"),
    (r"5000 *ada", "rtx-5000-ada"),
    (r"4000 *ada", "rtx-4000-ada"),
    (r"a6000", "rtx-a6000"),
    (r"l40s", "l40s"),
    (r"l40\b", "l40"),
    (r"\bl4\b", "l4"),
    (r"\ba40\b", "a40"),
    (r"\ba30\b", "a30"),
    (r"\ba10g\b", "a10g"),
    (r"\ba10\b", "a10"),
    (r"\bt4\b", "t4"),
    (r"v100", "v100-sxm2-32gb"),
    (r"\b5090\b", "rtx-5090"),
    (r"\b4090\b(?!.*(laptop|mobile))", "rtx-4090"),
    (r"\b4080\b(?!.*(super|laptop|mobile))", "rtx-4080"),
    (r"\b4070 *ti\b(?!.*(super|laptop|mobile))", "rtx-4070-ti"),
    (r"\b3090\b(?! *ti)", "rtx-3090"),
    (r"\b3080 *ti\b(?!.*(laptop|mobile))", "rtx-3080-ti"),
    (r"\b3080\b(?!.*(ti|12 *gb|laptop|mobile))", "rtx-3080"),
    (r"\b3070\b(?!.*(ti|laptop|mobile))", "rtx-3070"),
    (r"gb10|dgx spark", "gb10"),
    (r"mi355x?", "mi355x"),
    (r"mi350x?", "mi350x"),
    (r"mi325x?", "mi325x"),
    (r"mi300x", "mi300x"),
    (r"mi250", "mi250x"),
    (r"mi210", "mi210"),
    (r"gaudi *3", "gaudi3"),
    (r"gaudi *2", "gaudi2"),
    (r"arc pro b60", "arc-pro-b60"),
    (r"trillium|v6e", "tpu-v6e"),
    (r"v5p", "tpu-v5p"),
    (r"v5e|v5 lite", "tpu-v5e"),
    (r"ironwood|tpu *v7", "tpu-v7"),
    (r"trainium *2|trn2", "trainium2"),
    (r"inferentia *2|inf2", "inferentia2"),
    (r"\bm1 7 core", "m1-7-core"),
    (r"m1 max.*32", "m1-max"),
    (r"m3 max.*40", "m3-max"),
    (r"m2 ultra.*76", "m2-ultra"),
    (r"m3 ultra.*80", "m3-ultra"),
    (r"m4 max.*40", "m4-max"),
    (r"6980p", "xeon-6980p"),
    (r"6787p", "xeon-6787p"),
    (r"8592\+", "xeon-8592"),
    (r"7950x", "ryzen-7950x"),
    (r"9575f", "epyc-9575f"),
    (r"9755", "epyc-9755"),
)


def device_name(text: str) -> str | None:
    """The catalogue's name of the device that a table calls so; None for an unknown or a mixed one."""
    low = re.sub(r"[\s_‑–\-]+", " ", text.lower()).strip()
    if "(x" in low and ", " in low:
        return None
    return next((name for pattern, name in PATTERNS if re.search(pattern, low)), None)
