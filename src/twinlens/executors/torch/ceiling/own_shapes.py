"""The matrix products of a model's linear layers in one pass, for the matrix rate at its own shapes."""

from __future__ import annotations

from collections.abc import Iterable

from twinlens.spec.model.shape import ModelShape, ResnetShape, VitShape


def own_shapes(
    shape: ModelShape | None, layers: Iterable[tuple[int, int]], items: int, tokens: int
) -> list[tuple[int, int, int]]:
    """(m, n, k) of each linear layer (out, in), over `items` images or sequences of `tokens` in one pass.

    A vision transformer's layers meet every patch. Empty for a convolutional network: its one linear layer does a
    thousandth of its FLOP, and a product of matrices is no ceiling of a convolution.
    """
    if isinstance(shape, ResnetShape):
        return []
    if isinstance(shape, VitShape):
        tokens = 1 + (shape.image_size // shape.patch_size) ** 2  # the class token and the patches
    rows = items * tokens
    return [(rows, out, width) for out, width in layers]
