"""Spellings of devices in public tables, resolved to rows of the catalogue of devices."""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from twinlens.planning.prediction.place import USUAL_SHARE


@dataclass(frozen=True, slots=True)
class Card:
    """One device as the catalogue has it: dense rates in FLOP/s by format, None where it has none."""

    name: str
    vendor: str
    arch: str
    memory_bytes: float
    bytes_per_s: float
    rates: dict[str, float]
    measured_share: float | None
    link_bytes_per_s: float
    domain: float
    half_accumulate: float | None = None
    """FLOP/s of fp16 products that accumulate in fp16, as llama.cpp runs them on GeForce cards."""

    def rate(self, product: str) -> float:
        """Achievable FLOP/s of products in a format, or of the next wider one that the device has."""
        share = self.measured_share or USUAL_SHARE
        for form in {"fp4": ("fp4", "fp8", "bf16"), "fp8": ("fp8", "bf16"), "int8": ("int8", "bf16")}.get(product, ()):
            if form in self.rates:
                return self.rates[form] * share
        for form in (product, "bf16", "fp16", "fp32"):
            if form in self.rates:
                return self.rates[form] * share
        return 1e12


_RATES = {
    "bf16": "bf16_tflops",
    "fp16": "fp16_tflops",
    "fp8": "fp8_tflops",
    "fp4": "fp4_tflops",
    "int8": "int8_tops",
    "fp32": "fp32_tflops",
}


@lru_cache(maxsize=4)
def cards(path: str) -> dict[str, Card]:
    """Devices of a table with the columns of hardware.csv, by name."""
    with Path(path).open(encoding="utf-8", newline="") as file:
        return {row["name"]: _card(row) for row in csv.DictReader(file)}


def _card(row: dict[str, str]) -> Card:
    def figure(column: str) -> float | None:
        return float(row[column]) if row.get(column) else None

    rates = {form: value * 1e12 for form, column in _RATES.items() if (value := figure(column))}
    measured, half = figure("mamf_bf16_tflops"), figure("fp16_fp16acc_tflops")
    domain = re.match(r"\d+", row["max_domain"] or "")
    return Card(
        name=row["name"],
        vendor=row["vendor"],
        arch=row["arch"].split("+")[0].split(" (")[0].strip(),
        memory_bytes=(figure("mem_gib_visible") or float(row["mem_gb"]) * 0.93) * 2**30,
        bytes_per_s=float(row["mem_bw_gb_s"]) * 1e9,
        rates=rates,
        measured_share=measured * 1e12 / rates["bf16"] if measured else None,
        link_bytes_per_s=(figure("interconnect_gb_s_bidir_per_device") or 64.0) / 2 * 1e9,
        domain=float(domain.group()) if domain else 8.0,
        half_accumulate=half * 1e12 if half else None,
    )


PATTERNS: tuple[tuple[str, str], ...] = (
    (r"gb300", "GB300 (per GPU)"),
    (r"gb200", "GB200 (per GPU)"),
    (r"gh200", "GH200-96GB/144GB"),
    (r"b300", "B300-SXM-270GB"),
    (r"b200", "B200-SXM-180GB"),
    (r"h200.*nvl", "H200-NVL-141GB"),
    (r"h200", "H200-SXM-141GB"),
    (r"h100.*nvl", "H100-NVL-94GB"),
    (r"h100.*pcie", "H100-PCIe-80GB"),
    (r"h100|h800", "H100-SXM-80GB"),
    (r"a100.*pcie.*40", "A100-PCIe-40GB"),
    (r"a100.*pcie", "A100-PCIe-80GB"),
    (r"a100.*40", "A100-SXM-40GB"),
    (r"a100", "A100-SXM-80GB"),
    (r"rtx *pro *6000|pro 6000", "RTX PRO 6000 Blackwell (WS/Server 96GB)"),
    (r"rtx *pro *5000", "RTX PRO 5000 Blackwell 72GB (also 48GB)"),
    (r"6000 *ada", "RTX 6000 Ada"),
    (r"a6000", "RTX A6000"),
    (r"l40s", "L40S"),
    (r"l40\b", "L40"),
    (r"\bl4\b", "L4"),
    (r"\ba40\b", "A40"),
    (r"\ba30\b", "A30"),
    (r"\ba10g\b", "A10G"),
    (r"\ba10\b", "A10"),
    (r"\bt4\b", "T4"),
    (r"v100", "V100-SXM2-16/32GB"),
    (r"\b5090\b", "RTX 5090"),
    (r"\b4090\b(?!.*(laptop|mobile))", "RTX 4090"),
    (r"\b3090\b(?! *ti)", "RTX 3090"),
    (r"gb10|dgx spark", "DGX Spark / GB10"),
    (r"mi355x?", "MI355X"),
    (r"mi350x?", "MI350X"),
    (r"mi325x?", "MI325X"),
    (r"mi300x", "MI300X"),
    (r"mi250", "MI250X (per OAM, 2 GCD)"),
    (r"mi210", "MI210"),
    (r"gaudi *3", "Gaudi3"),
    (r"gaudi *2", "Gaudi2"),
    (r"arc pro b60", "Arc Pro B60"),
    (r"trillium|v6e", "TPU v6e (Trillium)"),
    (r"v5p", "TPU v5p"),
    (r"v5e|v5 lite", "TPU v5e"),
    (r"ironwood|tpu *v7", "TPU v7 (Ironwood)"),
    (r"trainium *2|trn2", "Trainium2"),
    (r"inferentia *2|inf2", "Inferentia2"),
    (r"m2 ultra.*76", "Apple M2 Ultra (76-core GPU)"),
    (r"m3 ultra.*80", "Apple M3 Ultra (80-core GPU)"),
    (r"m4 max.*40", "Apple M4 Max (40-core GPU)"),
    (r"6980p", "Xeon 6980P (128c Granite Rapids)"),
    (r"6787p", "Xeon 6787P (86c Granite Rapids)"),
    (r"8592\+", "Xeon 8592+ (64c Emerald Rapids)"),
    (r"7950x", "Ryzen 9 7950X (16c)"),
    (r"9575f", "EPYC 9575F (64c Turin)"),
    (r"9755", "EPYC 9755 (128c Turin)"),
)


def device_name(text: str) -> str | None:
    """The catalogue's name of the device that a table calls so; None for an unknown or a mixed one."""
    low = re.sub(r"[\s_‑–\-]+", " ", text.lower()).strip()
    if "(x" in low and ", " in low:
        return None
    return next((name for pattern, name in PATTERNS if re.search(pattern, low)), None)
