"""Data that a precision is calibrated on, stated and never what is measured: random images, or prompts."""

from __future__ import annotations

import hashlib

import numpy as np

from twinlens.executors.in_process.text import PromptPool
from twinlens.spec.model.reference import ModelRef
from twinlens.spec.study import RunSpec
from twinlens.spec.workload.workload import InferenceWorkload, Text

IMAGES, SEED = 32, 7
PROMPTS, LONGEST = 32, 128
OWN_STREAM = 10**9 + SEED  # of no run: those have the seeds of specs


def calibration_images(sides: tuple[int, int, int]) -> np.ndarray:
    """(images, 1, channels, size, size) fp32, standard normal: there are no photographs in the house."""
    return np.random.default_rng(SEED).standard_normal((IMAGES, 1, *sides), dtype=np.float32)


def image_sides(ref: ModelRef) -> tuple[int, int, int]:
    """(channels, size, size) of one image of a classifier."""
    size = int(ref.config.get("image_size", 224))
    return int(ref.config.get("num_channels", 3)), size, size


def calibration_said(ref: ModelRef, statistics: str) -> str:
    """One phrase for the record, with the hash of the images. `statistics`: what is taken of each activation."""
    digest = hashlib.sha256(calibration_images(image_sides(ref)).tobytes()).hexdigest()[:16]
    return f"{IMAGES} standard normal images, seed {SEED}, sha256 {digest}; {statistics}"


def calibration_prompts(spec: RunSpec) -> np.ndarray:
    """(prompts, length) int64 of the workload's own data, the same for every repeat."""
    assert isinstance(spec.workload, InferenceWorkload)
    length = min(LONGEST, spec.workload.input_tokens.max)
    pool = PromptPool(spec.workload.data, spec.model, OWN_STREAM, length)
    return pool.batch([(OWN_STREAM, place) for place in range(PROMPTS)], length)


def prompts_said(spec: RunSpec) -> str:
    """One phrase for the record: how many, how long, where from, and their hash."""
    assert isinstance(spec.workload, InferenceWorkload)
    prompts, data = calibration_prompts(spec), spec.workload.data
    origin = "cut from the workload's text" if isinstance(data, Text) else f"drawn from the workload's {data.kind} data"
    digest = hashlib.sha256(prompts.tobytes()).hexdigest()[:16]
    return f"{len(prompts)} prompts of {prompts.shape[1]} tokens {origin}, seed {OWN_STREAM}, sha256 {digest}"
