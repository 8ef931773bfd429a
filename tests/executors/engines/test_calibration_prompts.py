"""Prompts that a precision is calibrated on: stated, the same for every repeat, and none that is measured."""

from __future__ import annotations

import numpy as np

from material import inference, spec_of, study_of
from twinlens.executors.in_process.inputs import Prompts, calibration_prompts, prompts_said
from twinlens.spec.precision import PRECISIONS


def test_calibration_prompts_are_those_of_every_repeat_and_of_no_run() -> None:
    first, second = study_of(inference(protocol={"repeats": 2}, fidelity_prompts=8)).runs()[:2]
    prompts = calibration_prompts(first)
    assert prompts.shape == (32, 16)
    assert np.array_equal(prompts, calibration_prompts(second))
    for spec in (first, second):
        sample = Prompts(spec, spec.model.known()).sample()
        assert sample is not None
        assert not (sample[:, None] == prompts[None]).all(-1).any()


def test_the_record_names_number_length_origin_and_hash() -> None:
    said = prompts_said(spec_of(inference()))
    assert said.startswith("32 prompts of 16 tokens drawn from the workload's markov data, seed 1000000007, sha256 ")
    assert len(said.rpartition(" ")[2]) == 16
    assert said != prompts_said(spec_of(inference(data={"kind": "markov", "symbols": 64})))


def test_a_calibrated_precision_has_the_formats_of_the_one_that_only_rounds() -> None:
    rounded = PRECISIONS["int4-weight"]
    for name in ("int4-weight-gptq", "int4-weight-awq"):
        assert PRECISIONS[name].classes("inference") == rounded.classes("inference")
        assert PRECISIONS[name].weight_bits("inference") == rounded.weight_bits("inference")
