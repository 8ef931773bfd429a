"""Training data that lies in files: read, decoded and put together while training goes on."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, NonNegativeInt, PositiveInt

from twinlens.spec.frozen import Spec


class Folder(Spec):
    """Files that a data loader reads: tokens of a text model, or encoded images of a vision model."""

    kind: Literal["folder"]
    path: str | None = Field(
        None,
        description="A folder of token files (*.bin of 16-bit numbers, *.npy), or of images in a folder for each class "
        "(*.jpg, *.png, *.npz); without it one is made once, of the known language or of random images.",
        examples=["shards"],
    )
    workers: NonNegativeInt = Field(
        0, description="Processes that read and decode ahead (torch's DataLoader); 0 reads in the training loop itself."
    )
    pages: Literal["warm", "cold"] = Field(
        "warm",
        description='What the page cache holds of the files when training begins: all of them ("warm"), or none.',
    )
    encoding: Literal["npz", "jpeg"] = Field(
        "npz", description="How images are encoded in a folder that is made; jpeg needs the extra images."
    )
    files: PositiveInt = Field(256, description="How many images a folder that is made holds.")
