"""Precision regimes: a name for people, and what it means per tensor class in each lens.

"FP8" alone says too little (method: precision is stated per tensor class), so a regime expands to one format
for weights, activations, KV cache and accumulation in inference, and for compute, master weights, gradients and
optimizer state in training.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from twinlens.errors import BadInput, nearest

Lens = Literal["training", "inference", "collective"]
"""What is measured: the two lenses of a model, and exchanges between ranks, which are of none."""
TENSOR_CLASSES: dict[Lens, tuple[str, ...]] = {
    "training": ("weights", "activations", "accumulation", "master", "gradients", "optimizer"),
    "inference": ("weights", "activations", "kv", "accumulation"),
}
BITS = {
    "fp32": 32,
    "tf32": 32,
    "bf16": 16,
    "fp16": 16,
    "fp8-e4m3": 8,
    "fp8-e5m2": 8,
    "int8": 8,
    "int4": 4,
    "nf4": 4,
    "mxfp4": 4,
    "nvfp4": 4,
    "mxfp8": 8,
    "int32": 32,
}
"""Bits an element takes in memory (tf32 is a compute format: it is stored in 32)."""


@dataclass(frozen=True, slots=True)
class Precision:
    """One regime. `compute` names the format of the matrix products, whose ceiling is the one to compare with.

    `classes` maps a tensor class to a format in BITS. `group` is the quantisation group size (0: per channel).
    `scale_bits` are the bits of one scale (0: none).
    `calibrated`: values chosen with data, calibration prompts or training, so that no rounding makes it.
    """

    name: str
    lenses: tuple[Lens, ...]
    compute: str
    inference: dict[str, str]
    training: dict[str, str]
    group: int = 0
    scale_bits: int = 0
    method: str = "cast"
    quantised: bool = False
    calibrated: bool = False

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


def _plain(name: str, accumulation: str = "fp32", compute: str | None = None) -> Precision:
    stored = "fp32" if name == "tf32" else name
    return Precision(
        name=name,
        lenses=("training", "inference"),
        compute=compute or name,
        inference={"weights": stored, "activations": stored, "kv": stored, "accumulation": accumulation},
        # Mixed precision keeps one fp32 copy of the weights: it is both resident weight and master (torch.autocast).
        training={
            "weights": "fp32",
            "activations": stored,
            "accumulation": accumulation,
            "master": "fp32",
            "gradients": "fp32",
            "optimizer": "fp32",
        },
    )


def _weights_only(bits: str, group: int, method: str, by: str = "") -> Precision:
    return Precision(
        name=f"{bits}-weight{by}",
        lenses=("inference",),
        compute="bf16",
        inference={"weights": bits, "activations": "bf16", "kv": "bf16", "accumulation": "fp32"},
        training={},
        group=group,
        scale_bits=16 if not group else 32,  # int4 groups carry a bf16 scale and a bf16 zero point
        method=method,
        quantised=True,
        calibrated=bool(by),
    )


def _blocks(name: str, group: int, method: str) -> Precision:
    """Weights and activations in blocks with a scale of 8 bits each, multiplied as they are (Blackwell)."""
    return Precision(
        name=name,
        lenses=("inference",),
        compute=name,
        inference={"weights": name, "activations": name, "kv": "bf16", "accumulation": "fp32"},
        training={},
        group=group,
        scale_bits=8,
        method=method,
        quantised=True,
    )


PRECISIONS: dict[str, Precision] = {
    regime.name: regime
    for regime in (
        _plain("fp32"),
        _plain("tf32", compute="tf32"),
        _plain("bf16"),
        _plain("fp16"),
        Precision(
            name="fp8",
            lenses=("training", "inference"),
            compute="fp8-e4m3",
            inference={
                "weights": "fp8-e4m3",
                "activations": "fp8-e4m3",
                "kv": "bf16",
                "accumulation": "fp32",
            },
            training={
                "weights": "fp32",
                "activations": "fp8-e4m3",
                "accumulation": "fp32",
                "master": "fp32",
                "gradients": "fp32",
                "optimizer": "fp32",
            },
            method="dynamic row-wise scale",
            scale_bits=32,
            quantised=True,
        ),
        Precision(
            name="int8-dynamic",
            lenses=("inference",),
            compute="int8",
            inference={"weights": "int8", "activations": "int8", "kv": "fp32", "accumulation": "int32"},
            training={},
            method="round to nearest, symmetric weights per tensor; activations asymmetric per tensor, at run time",
            scale_bits=32,
            quantised=True,
        ),
        Precision(
            name="int8-static",
            lenses=("inference",),
            compute="int8",
            inference={"weights": "int8", "activations": "int8", "kv": "fp32", "accumulation": "int32"},
            training={},
            method="round to nearest; weights by channel, activations by tensor with scales from calibration",
            scale_bits=32,
            quantised=True,
        ),
        Precision(
            name="int4-dynamic",
            lenses=("inference",),
            compute="int8",
            inference={"weights": "int4", "activations": "int8", "kv": "fp32", "accumulation": "int32"},
            training={},
            group=32,
            scale_bits=32,
            method="round to nearest, symmetric, groups of 32; activations by group, at run time",
            quantised=True,
        ),
        _weights_only("int8", 0, "round to nearest, symmetric, one scale per output channel"),
        _weights_only("int4", 32, "round to nearest, asymmetric, groups of 32"),
        _weights_only("int4", 32, "GPTQ, asymmetric, groups of 32", "-gptq"),
        _weights_only("int4", 32, "AWQ, asymmetric, groups of 32", "-awq"),
        Precision(
            name="mxfp4",
            lenses=("inference",),
            compute="bf16",
            inference={"weights": "mxfp4", "activations": "bf16", "kv": "bf16", "accumulation": "fp32"},
            training={},
            group=32,
            scale_bits=8,
            method="E2M1 in blocks of 32 that share a power of two (OCP Microscaling), as trained",
            quantised=True,
            calibrated=True,
        ),
        _blocks("nvfp4", 16, "E2M1 in blocks of 16 with a scale in E4M3, and one in fp32 for the tensor"),
        _blocks("mxfp8", 32, "E4M3 in blocks of 32 that share a power of two (OCP Microscaling)"),
        Precision(
            name="int8-smoothquant",
            lenses=("inference",),
            compute="int8",
            inference={"weights": "int8", "activations": "int8", "kv": "fp32", "accumulation": "int32"},
            training={},
            method="SmoothQuant: outliers moved from activations to weights, both then in 8 bits",
            scale_bits=32,
            quantised=True,
            calibrated=True,
        ),
    )
}

AS_SERVED = Precision(
    name="as-served",
    lenses=("inference",),
    compute="",
    inference={},
    training={},
    method="the server computes as it was started, and its formats are not known here",
)
"""Of a server that is up already: its formats are its own, and no class of tensors has one that is known here."""

AS_FOUND = Precision(
    name="as-found",
    lenses=("training",),
    compute="",
    inference={},
    training={},
    method="nobody declared a precision, and the formats that were found make none that has a name",
)
"""Of somebody's own training loop (`tl.watch`) whose formats are those of no regime: nothing is held to a name."""


def precision(name: str) -> Precision:
    """The regime called `name`. Raises BadInput with the nearest known name."""
    if name in (AS_SERVED.name, AS_FOUND.name):
        return AS_SERVED if name == AS_SERVED.name else AS_FOUND
    if name not in PRECISIONS:
        raise BadInput(f"unknown precision {name!r}; {nearest(name, PRECISIONS)}", code="TL203")
    return PRECISIONS[name]


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
