"""`[executor.options]` of parallel training, and the degrees they stand for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Self

from twinlens.errors import BadInput
from twinlens.executors.capabilities import Degrees, Option
from twinlens.executors.options import refuse_wrong_options
from twinlens.spec.model.shape import DecoderShape
from twinlens.spec.study import RunSpec
from twinlens.spec.workload.workload import TrainingWorkload

KIND = "torch-parallel"
PRECISIONS = ("fp32", "tf32", "bf16")
OPTIONS = {
    "parallel": Option(
        "ddp",
        ("ddp", "fsdp2", "tp"),
        description='How training is divided over ranks: "ddp" copies the model and adds up gradients, "fsdp2" shards '
        'weights, gradients and optimizer state, "tp" splits every layer.',
    ),
    "ranks": Option(2, description="Processes that train together, one per GPU or share of a processor."),
    "reshard": Option(
        "yes",
        ("yes", "no"),
        tunes=True,
        description="Whether fsdp2 frees gathered weights after the forward pass and gathers them again.",
    ),
    "attention": Option(
        "sdpa", ("sdpa", "eager"), tunes=True, description="The attention implementation asked of transformers."
    ),
    "bucket_mib": Option(25.0, tunes=True, description="Size in MiB of the buckets in which ddp adds up gradients."),
    "compared_steps": Option(
        3, description="Steps whose losses are compared with one process before the rows; 0: none, and no ranking."
    ),
    "patience_s": Option(120.0, description="Seconds in which a rank has to answer before it counts as hung."),
}


@dataclass(frozen=True, slots=True)
class ParallelOptions:
    """The options of a spec, checked; `OPTIONS` says what each means."""

    parallel: Literal["ddp", "fsdp2", "tp"] = "ddp"
    ranks: int = 2
    reshard: Literal["yes", "no"] = "yes"
    attention: Literal["sdpa", "eager"] = "sdpa"
    bucket_mib: float = 25.0
    compared_steps: int = 3
    patience_s: float = 120.0

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> Self:
        """Raises BadInput (TL207)."""
        refuse_wrong_options(KIND, options, OPTIONS)
        _refuse_outside(options, "ranks", 1, 1024, whole=True)
        _refuse_outside(options, "compared_steps", 0, 100, whole=True)
        _refuse_outside(options, "bucket_mib", 0.01, 1e6)
        _refuse_outside(options, "patience_s", 1.0, 86400.0)
        return cls(**options)

    @property
    def data(self) -> int:
        """Ranks that see different data."""
        return 1 if self.parallel == "tp" else self.ranks

    @property
    def degrees(self) -> Degrees:
        """FSDP2 keeps what ZeRO 3 keeps; not resharded, it holds the weights whole from forward to backward."""
        zero: Literal[0, 3] = 3 if self.parallel == "fsdp2" else 0
        return Degrees(data=self.data, tensor=self.ranks if self.parallel == "tp" else 1, zero=zero)


def microbatch_of(spec: RunSpec, options: ParallelOptions) -> int:
    """Sequences of one forward pass of one rank. Raises BadInput (TL202) where the batch cannot be divided so."""
    assert isinstance(spec.workload, TrainingWorkload)
    batch, ranks = spec.workload.global_batch, options.data
    if batch % ranks:
        raise BadInput(
            f"{ranks} ranks do not divide workload.global_batch {batch}; set executor.options.ranks or the batch so "
            "that they do",
            code="TL202",
        )
    share = batch // ranks
    asked = spec.point.microbatch or share
    if share % asked:
        raise BadInput(
            f"point.microbatch {asked} does not divide the {share} sequences that each of {ranks} ranks has of "
            f"workload.global_batch {batch}",
            code="TL202",
        )
    return asked


def degrees_of(spec: RunSpec) -> Degrees:
    """The degrees of a run. Raises BadInput (TL202, TL207) where the ranks divide neither batch nor heads."""
    options = ParallelOptions.of(spec.executor.options)
    microbatch_of(spec, options)
    shape = spec.model.shape
    if options.parallel == "tp" and isinstance(shape, DecoderShape):
        _refuse_undivided_heads(shape, options.ranks)
    return options.degrees


def _refuse_undivided_heads(shape: DecoderShape, ranks: int) -> None:
    divided = {"heads": shape.heads, "KV heads": shape.kv_heads, "intermediate width": shape.intermediate}
    for what, amount in divided.items():
        if amount % ranks:
            raise BadInput(
                f"{ranks} ranks do not divide the model's {amount} {what}, as tensor parallelism needs; "
                "set executor.options.ranks to a divisor",
                code="TL202",
            )


def _refuse_outside(options: Mapping[str, Any], name: str, least: float, most: float, *, whole: bool = False) -> None:
    value = options.get(name, OPTIONS[name].default)
    is_number = isinstance(value, int if whole else int | float) and not isinstance(value, bool)
    if not is_number or not least <= value <= most:
        kind = "a whole number" if whole else "a number"
        raise BadInput(
            f"executor.options.{name} of {KIND} is {kind} from {least:g} to {most:g}, not {value!r}", code="TL207"
        )
