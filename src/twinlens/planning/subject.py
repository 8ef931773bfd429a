"""The model that a plan is for: its parameters, its layers where they are known, and where both come from."""

from __future__ import annotations

from dataclasses import dataclass

from twinlens.record.finding import Finding
from twinlens.spec.model.shape import DecoderShape
from twinlens.theory.figure import Input
from twinlens.theory.weight_format import mean_bits, weight_format


@dataclass(frozen=True, slots=True)
class Subject:
    """`params` counts every weight. `shape` None: a bare size, or a type of model whose layers are not read here.

    `stored_bytes`: of the weights as they lie in a file, where a header says so; `stored_format` is their format then.
    """

    name: str
    params: int
    shape: DecoderShape | None = None
    source: str = ""
    stored_bytes: int | None = None
    stored_format: str | None = None
    released: str | None = None
    """The format that the maker's config says the published weights are in; None: in 16 bits, or nobody said."""
    tower: int = 0
    """Parameters of an image tower and its projector beside the text part, kept in 16 bits; not among `params`."""
    assumed: tuple[Finding, ...] = ()

    @property
    def own_format(self) -> str | None:
        """The format of the weights as they lie in a file, else as their maker publishes them."""
        return self.stored_format or self.released

    def weight_bits(self, name: str) -> float:
        """Mean bits per weight in a format, or as stored; without layers, those of the format's matrices."""
        if name == self.stored_format and self.stored_bytes is not None:
            return 8 * self.stored_bytes / self.params
        kept = weight_format(name)
        return kept.matrices if self.shape is None else mean_bits(self.shape, kept)

    def params_input(self) -> Input:
        return Input("params", self.params, "parameters", self.source)
