"""Groups of a question: what a constant may differ by."""

from __future__ import annotations

from twinlens.spec.model.shape import DecoderShape


def serving_labels(
    engine: str,
    vendor: str,
    arch: str,
    product: str,
    shape: DecoderShape,
    *,
    disaggregated: bool = False,
    scenario: str = "",
    release: str = "",
    era: str = "",
) -> tuple[str, ...]:
    """Groups of a question about serving. `era`: the year of software that is older than the others."""
    own = [f"engine:{engine}", f"arch:{arch}", f"vendor:{vendor}", f"format:{product}", f"engine+arch:{engine}+{arch}"]
    return (
        *own,
        *_kinds(shape),
        *(["disaggregated"] if disaggregated else []),
        *([f"scenario:{scenario}"] if scenario else []),
        *([f"release:{release}"] if release else []),
        *([f"era:{era}"] if era else []),
    )


def training_labels(
    engine: str, arch: str, precision: str, shape: DecoderShape, *, release: str = "", adapters: bool = False
) -> tuple[str, ...]:
    """Groups of a question about training. Releases differ most in mixtures of experts."""
    own = [f"engine:{engine}", f"arch:{arch}", f"format:{precision}"]
    young = [f"release:{release}"] if shape.experts and release else []
    return (*own, *_kinds(shape), *young, *(["adapters"] if adapters else []))


def _kinds(shape: DecoderShape) -> list[str]:
    kinds = {"experts": shape.experts, "latent": shape.mla, "recurrent": shape.recurrent}
    return [name for name, there in kinds.items() if there]
