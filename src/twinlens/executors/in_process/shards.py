"""Training data in files: found in a folder, or made once of the known language or of random images, and hashed."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from twinlens.errors import BadInput
from twinlens.executors.in_process.export import exported
from twinlens.executors.in_process.inputs import TokenSource
from twinlens.spec.model.any_model import Model, is_text, vocabulary
from twinlens.spec.model.shape import ResnetShape, VitShape
from twinlens.spec.workload.workload import Folder, Markov

_TOKENS, _IMAGES = ("*.bin", "*.npy"), ("*.jpg", "*.jpeg", "*.png", "*.npz")
_MADE_TOKENS, _ROWS, _CLASSES = 1 << 22, 1 << 10, 8
_STORED, _LEAST_SIDE = 2, 256  # times the model's side, and pixels: decoding and resizing are a real pipeline's work
_COARSE = 8
_SEED = 20
_READ_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Shards:
    """Files of one folder in order. `classes`: of each file's folder, for images. `sha256`: of all their bytes.

    `origin`: "made" or "found". `entropy_rate_nats`: of tokens that were made; None where it is not known.
    """

    files: tuple[Path, ...]
    classes: tuple[int, ...]
    size_bytes: int
    sha256: str
    origin: str
    entropy_rate_nats: float | None = None


def shards_of(data: Folder, ref: Model) -> Shards:
    """The files of this data; reading all of them to hash them leaves them in the page cache. Raises BadInput
    (TL209) where there are none."""
    text = is_text(ref)
    rate = TokenSource(Markov(), ref).entropy_rate_nats if text and data.path is None else None
    folder = Path(data.path) if data.path is not None else _made(data, ref)
    patterns = _TOKENS if text else _IMAGES
    found = sorted(file for pattern in patterns for file in folder.rglob(pattern) if file.is_file())
    if not found:
        raise BadInput(
            f"the folder {str(folder)!r} holds none of {', '.join(patterns)}; name another in workload.data.path",
            code="TL209",
        )
    names = sorted({file.parent for file in found})
    classes = tuple(names.index(file.parent) for file in found)
    size = sum(file.stat().st_size for file in found)
    return Shards(tuple(found), classes, size, _hash(found), "made" if data.path is None else "found", rate)


def tokens_of(file: Path, vocab: int) -> np.ndarray:
    """A token file as an array that is read as it is used. Raises BadInput (TL209) for one of another kind."""
    try:
        tokens = np.load(file, mmap_mode="r") if file.suffix == ".npy" else np.memmap(file, "<u2", "r")
    except (OSError, ValueError) as wrong:
        raise BadInput(f"{str(file)!r} is no file of tokens: {wrong}", code="TL209") from None
    if tokens.ndim != 1 or tokens.dtype.kind not in "ui":
        raise BadInput(f"{str(file)!r} holds no row of whole numbers", code="TL209")
    if int(tokens.max(initial=0)) >= vocab or int(tokens.min(initial=0)) < 0:
        raise BadInput(f"{str(file)!r} holds a token outside the model's vocabulary of {vocab}", code="TL209")
    return tokens


def decoded(file: Path) -> np.ndarray:
    """An image, uint8, shape (height, width, channels)."""
    if file.suffix == ".npz":
        with np.load(file, allow_pickle=False) as held:
            return np.asarray(held[held.files[0]])
    from PIL import Image

    with Image.open(file) as image:
        return np.asarray(image.convert("RGB"))


def refuse_undecodable(data: Folder, files: tuple[Path, ...]) -> None:
    """Raises BadInput (TL209) for images that need Pillow, where it is not installed."""
    named = {file.suffix for file in files} | ({".jpg"} if data.path is None and data.encoding == "jpeg" else set())
    if named <= {".npz", ".bin", ".npy"}:
        return
    try:
        import PIL  # noqa: F401
    except ImportError:
        raise BadInput(
            "images in files of JPEG or PNG are decoded by Pillow, which is not installed: pip install "
            "'twinlens[images]', or encoding = \"npz\"",
            code="TL209",
        ) from None


def _made(data: Folder, ref: Model) -> Path:
    if is_text(ref):
        return exported("data", f"tokens-{vocabulary(ref)}-{_MADE_TOKENS}", _writes_tokens(ref)).path
    refuse_undecodable(data, ())
    assert isinstance(ref.shape, VitShape | ResnetShape)
    side = max(_LEAST_SIDE, _STORED * ref.shape.image_size)
    name = f"images-{data.encoding}-{side}-{ref.shape.channels}-{data.files}"
    return exported("data", name, _writes_images(data, side, ref.shape.channels)).path


def _writes_tokens(ref: Model) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        if vocabulary(ref) > 1 << 16:
            raise BadInput("tokens are made of 16 bits, and this vocabulary is larger; name a folder", code="TL209")
        rows = TokenSource(Markov(), ref).sequences(np.random.default_rng(_SEED), _ROWS, _MADE_TOKENS // _ROWS)
        rows.astype("<u2").tofile(folder / "tokens-0.bin")

    return write


def _writes_images(data: Folder, side: int, channels: int) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        rng = np.random.default_rng(_SEED)
        for i in range(data.files):
            coarse = rng.integers(0, 256, (-(-side // _COARSE), -(-side // _COARSE), channels))
            smooth = coarse.repeat(_COARSE, 0).repeat(_COARSE, 1)[:side, :side]
            pixels = np.clip(smooth + rng.integers(-8, 9, smooth.shape), 0, 255).astype(np.uint8)
            place = folder / f"class-{i % _CLASSES}"
            place.mkdir(exist_ok=True)
            if data.encoding == "npz":
                np.savez_compressed(place / f"{i:06d}.npz", image=pixels)
            else:
                from PIL import Image

                Image.fromarray(pixels).save(place / f"{i:06d}.jpg", quality=90)

    return write


def _hash(files: list[Path]) -> str:
    whole = hashlib.sha256()
    for file in files:
        with file.open("rb") as opened:
            while part := opened.read(_READ_BYTES):
                whole.update(part)
    return whole.hexdigest()
