"""The convolutions of a residual network, one by one (He et al. 2016, arXiv 1512.03385)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from twinlens.spec.model.shape import ResnetShape

_REDUCTION = 4  # a bottleneck narrows its 3x3 convolution by this


@dataclass(frozen=True, slots=True)
class Convolution:
    """A square convolution with padding kernel // 2, no bias, and the batch norm that follows it.

    `side` is the height and width of its output. A `shortcut` has no activation of its own.
    """

    inputs: int
    outputs: int
    kernel: int
    side: int
    shortcut: bool = False

    @property
    def weights(self) -> int:
        return self.inputs * self.outputs * self.kernel**2

    @property
    def macs(self) -> int:
        """Multiply-accumulates for one image."""
        return self.weights * self.side**2

    @property
    def elements(self) -> int:
        """Elements of its output for one image."""
        return self.outputs * self.side**2


def convolutions(shape: ResnetShape, image_size: int) -> tuple[Convolution, ...]:
    """All convolutions in order, for square images of `image_size`."""
    return tuple(_walk(shape, image_size))


def _half(side: int) -> int:
    """Output side at stride 2 with padding kernel // 2, for every odd kernel."""
    return (side + 1) // 2


def _walk(shape: ResnetShape, image_size: int) -> Iterator[Convolution]:
    side = _half(image_size)
    yield Convolution(shape.channels, shape.embedding, 7, side)
    side, inputs = _half(side), shape.embedding  # max pool, stride 2
    for stage, (outputs, depth) in enumerate(zip(shape.hidden_sizes, shape.depths, strict=True)):
        for block in range(depth):
            strided = block == 0 and (stage > 0 or shape.downsample_in_first_stage)
            before, side = side, _half(side) if strided else side
            if inputs != outputs or strided:
                yield Convolution(inputs, outputs, 1, side, shortcut=True)
            yield from _block(shape, inputs, outputs, before, side)
            inputs = outputs


def _block(shape: ResnetShape, inputs: int, outputs: int, before: int, side: int) -> Iterator[Convolution]:
    if shape.layer_type == "basic":
        yield Convolution(inputs, outputs, 3, side)
        yield Convolution(outputs, outputs, 3, side)
        return
    narrow = outputs // _REDUCTION
    yield Convolution(inputs, narrow, 1, side if shape.downsample_in_bottleneck else before)
    yield Convolution(narrow, narrow, 3, side)
    yield Convolution(narrow, outputs, 1, side)
