"""Precision regimes: a name for people, and what it means per tensor class in each lens.

"FP8" alone says too little (method: precision is stated per tensor class), so a regime expands to one format
for weights, activations, KV cache and accumulation in inference, and for compute, master weights, gradients and
optimizer state in training.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from twinlens.errors import BadInput, nearest
from twinlens.system.document import read_toml

Lens = Literal["training", "inference", "collective"]
"""What is measured: the two lenses of a model, and exchanges between ranks, which are of none."""
TENSOR_CLASSES: dict[Lens, tuple[str, ...]] = {
    "training": ("weights", "activations", "accumulation", "master", "gradients", "optimizer"),
    "inference": ("weights", "activations", "kv", "accumulation"),
}


@dataclass(frozen=True, slots=True)
class Precision:
    """One regime, a row of catalog/precisions.toml, which says what each field is. `group` 0: a scale per channel.

    `compute` names the format of the matrix products, whose ceiling is the one to compare with.
    """

    name: str
    lenses: tuple[Lens, ...]
    compute: str = ""
    inference: dict[str, str] = field(default_factory=dict)
    training: dict[str, str] = field(default_factory=dict)
    group: int = 0
    scale_bits: int = 0
    method: str = "cast"
    quantised: bool = False
    calibrated: bool = False
    server_words: tuple[str, ...] = ()

    def classes(self, lens: Lens) -> dict[str, str]:
        """Tensor class to format, for one lens. Raises BadInput when the regime does not exist in that lens."""
        if lens not in self.lenses:
            raise BadInput(f"precision {self.name!r} does not exist for {lens}; {_known(lens)}", code="TL203")
        return self.training if lens == "training" else self.inference

    def weight_bits(self, lens: Lens, row_length: int = 0) -> float:
        """Bits per matrix weight, scales included; `row_length` is the elements that share a per-channel scale."""
        bits = float(BITS[self.classes(lens)["weights"]])
        share = self.group or row_length
        return bits + (self.scale_bits / share if self.scale_bits and share else 0.0)


def _row(entry: dict[str, Any]) -> Precision:
    lenses = entry.pop("lenses", [lens for lens in TENSOR_CLASSES if lens in entry])
    return Precision(lenses=tuple(lenses), server_words=tuple(entry.pop("server_words", ())), **entry)


_TABLE = read_toml(Path(__file__).with_name("catalog") / "precisions.toml")
_ROWS = {entry["name"]: _row(entry) for entry in _TABLE["precision"]}

BITS: dict[str, int] = _TABLE["bits"]
"""Bits an element takes in memory (tf32 is a compute format: it is stored in 32)."""
AS_SERVED, AS_FOUND = _ROWS["as-served"], _ROWS["as-found"]
"""Of a server that is up already, and of somebody's own training loop (`tl.watch`): no formats that are known here."""
PRECISIONS = {name: regime for name, regime in _ROWS.items() if regime not in (AS_SERVED, AS_FOUND)}


def precision(name: str) -> Precision:
    """The regime called `name`. Raises BadInput with the nearest known name."""
    if name not in _ROWS:
        raise BadInput(f"unknown precision {name!r}; {nearest(name, PRECISIONS)}", code="TL203")
    return _ROWS[name]


def kept_in(regime: Precision, kv: object) -> Precision:
    """The regime with its KV cache in the format `kv`; as it is for a word that names none ("auto")."""
    if kv not in BITS or "kv" not in regime.inference:
        return regime
    return replace(regime, inference=regime.inference | {"kv": str(kv)})


def frozen(regime: Precision, *, nf4: bool) -> Precision:
    """The regime of training an adapter: weights that stay are held as products read them, or in `nf4`.

    The adapter, which is what the optimizer updates, is fp32 in any of them (PEFT's autocast_adapter_dtype). Raises
    BadInput (TL203) for fp8, whose products are made from weights that are trained.
    """
    if regime.compute.startswith("fp8"):
        raise BadInput("an adapter is trained at fp32, tf32, bf16 or fp16, not at fp8", code="TL203")
    held = "nf4" if nf4 else regime.classes("training")["activations"]
    kept = replace(regime, lenses=("training",), inference={}, training=regime.training | {"weights": held})
    if not nf4:
        return kept
    name, method = f"nf4, computed in {regime.compute}", "NF4 of bitsandbytes, made 16 or 32 bits wide before a product"
    return replace(kept, name=name, method=method, group=64, scale_bits=8, quantised=True)


def _known(lens: Lens) -> str:
    return "known: " + ", ".join(p.name for p in PRECISIONS.values() if lens in p.lenses)
