"""DeepSpeed without DeepSpeed: refusals, its config, memory that theory predicts, and the extension it compiles."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from material import quiet, spec_of, training
from twinlens.errors import BadInput, ExecutorFailed
from twinlens.executors.capabilities import Degrees
from twinlens.executors.registry import capabilities
from twinlens.executors.torch.deepspeed import program
from twinlens.executors.torch.deepspeed.entry import KIND, ZeroOptions, config_of, degrees_of
from twinlens.executors.torch.deepspeed.program import built_in, program_of
from twinlens.measurement.facts.predicted_memory import predicted_memory
from twinlens.measurement.preflight.refuse import refuse_what_cannot_run
from twinlens.spec.study import RunSpec


def spec(batch: int = 8, precision: str = "fp32", **options: Any) -> RunSpec:
    point = {"precision": precision}
    return spec_of(training("torch-deepspeed", options=options, global_batch=batch, point=point))


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ({"stage": 4}, "executor.options.stage of torch-deepspeed is a whole number from 0 to 3, not 4"),
        ({"stage": "2"}, "not '2'"),
        ({"stage": 0, "offload": "optimizer"}, "offloads it from stage 1 on"),
        ({"offload": "nvme"}, '"none" or "optimizer"'),
        ({"ranks": 3}, "3 ranks do not divide workload.global_batch 8"),
        ({"bucket_mib": -1}, "executor.options.bucket_mib of torch-deepspeed is a number from 0 to 1e+06, not -1"),
        ({"python": 3}, "executor.options.python is the path of a Python"),
        ({"zero": 2}, "no option 'zero'"),
        ({"precision": "fp16"}, "fp16"),
    ],
)
def test_what_deepspeed_cannot_do_is_refused_before_anything_starts(asked: dict[str, Any], sentence: str) -> None:
    with pytest.raises(BadInput) as refused:
        refuse_what_cannot_run(spec(**asked))
    assert sentence in str(refused.value)
    assert "\n" not in str(refused.value)


def test_memory_follows_the_laws_of_zero_with_the_fp32_copy_that_deepspeed_keeps() -> None:
    """Bytes per parameter on each of two ranks: weights, gradients, optimizer state, fp32 copy."""
    parameters = (predicted_memory(spec(stage=0))["predicted_weights_bytes"].value or 0) / 4
    laws = {0: (4, 4, 8, 0), 1: (4, 4, 4, 2), 2: (4, 2, 4, 2), 3: (2, 2, 4, 2)}
    for stage, law in laws.items():
        held = predicted_memory(spec(stage=stage))
        names = [f"predicted_{name}_bytes" for name in ("weights", "gradients", "optimizer", "master")]
        assert tuple((held[name].value or 0) / parameters if name in held else 0 for name in names) == law, stage
    small = spec(stage=0)
    assert degrees_of(small) == Degrees(data=2, microbatch=4, compared=small.model)
    assert degrees_of(spec(stage=3, ranks=4)) == Degrees(
        data=4, zero=3, keeps_master=True, microbatch=2, buffers_bytes=2e9, compared=small.model
    )


def test_what_nobody_asked_for_is_as_deepspeed_has_it_and_the_rest_is_named() -> None:
    """Below 16.8 million live elements ZeRO 3 prefetches nothing of a larger layer: nobody is handicapped unasked."""
    plain = config_of(ZeroOptions(stage=3), "bf16", 2, 3)
    assert plain["zero_optimization"] == {"stage": 3}
    told = " ".join(capabilities(KIND).unasked)
    run = {"zero_optimization", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps", "steps_per_print"}
    assert all(name in told for name in plain.keys() - run)


def test_buckets_are_as_large_as_asked_and_live_parameters_stay_deepspeeds() -> None:
    asked = ZeroOptions(stage=3, bucket_mib=1.0, whole_below=0, offload="optimizer")
    config = config_of(asked, "bf16", 2, 3)
    zero = config["zero_optimization"]
    assert {size for name, size in zero.items() if name.endswith("bucket_size")} == {2**18}
    assert not any(name in zero for name in ("stage3_max_live_parameters", "stage3_max_reuse_distance"))
    assert zero["stage3_param_persistence_threshold"] == 0, "else every parameter of a small model stays whole"
    assert zero["offload_optimizer"] == {"device": "cpu"}
    assert config["torch_autocast"] == {"enabled": True, "dtype": "bfloat16"}, "weights stay fp32, as bf16 means here"
    assert (config["train_micro_batch_size_per_gpu"], config["gradient_accumulation_steps"]) == (2, 3)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_gradients_are_not_clipped_for_nobody_asked_and_no_other_executor_does(precision: str) -> None:
    assert config_of(ZeroOptions(), precision, 2, 1)["gradient_clipping"] == 0.0, "DeepSpeed's default is 1.0"


def python_that(tmp_path: Path, does: str) -> str:
    """A program in the place of a Python."""
    path = tmp_path / "python"
    path.write_text(f"#!/bin/sh\n{does}\n")
    path.chmod(0o755)
    return str(path)


def test_a_python_without_deepspeed_is_named_with_the_way_to_get_it(tmp_path: Path) -> None:
    said = '{"python": "3.11", "packages": {"torch": "2.13.0", "transformers": "5.0", "twinlens": "0.0.0"}}'
    bare = python_that(tmp_path, f"echo '{said}'")
    with pytest.raises(BadInput, match="has no deepspeed, which torch-deepspeed needs: pip install deepspeed") as lacks:
        program_of(spec(python=bare), quiet)
    assert lacks.value.code == "TL217"
    other = tmp_path / "other"
    other.mkdir()
    old = python_that(other, f'echo \'{said.replace("torch", "deepspeed", 1)[:-2]}, "torch": "2.13.0"}}}}\'')
    with pytest.raises(BadInput, match=r"has twinlens 0\.0\.0, and this is"):
        program_of(spec(python=old), quiet)


def test_an_extension_is_compiled_once_and_a_lock_that_was_left_behind_is_removed(tmp_path: Path) -> None:
    folder, said = tmp_path / "cache", list[str]()
    python = python_that(tmp_path, f"echo x >> {tmp_path}/calls; mkdir -p {folder}/shm; touch {folder}/shm/lock")
    took_s = built_in(folder, python, {}, said.append)
    assert took_s > 0
    (folder / "shm" / "lock").unlink()
    assert built_in(folder, python, {}, said.append) == took_s
    assert (tmp_path / "calls").read_text() == "x\n"
    (folder / "shm" / "lock").touch()  # as a compiler leaves it that was killed
    built_in(folder, python, {}, said.append)
    assert (tmp_path / "calls").read_text() == "x\nx\n"
    assert said[1] == "removing the lock of a compilation that was ended"


def test_an_extension_that_cannot_be_compiled_is_said_with_its_log_and_left_unmade(tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    python = python_that(tmp_path, "echo 'RuntimeError: no compiler' >&2; exit 1")
    with pytest.raises(ExecutorFailed, match="cannot be compiled: RuntimeError: no compiler") as failed:
        built_in(folder, python, {}, quiet)
    assert (failed.value.code, failed.value.exit_code) == ("TL308", 3)
    assert not (folder / "compiled.json").exists()


def test_a_run_waits_for_another_that_compiles_and_then_ends_in_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program, "_MOST_S", 0.3)
    said = list[str]()
    lock = tmp_path / "shm" / "lock"
    lock.parent.mkdir()
    lock.touch()
    with open(tmp_path / "owner", "w") as owner:
        fcntl.flock(owner, fcntl.LOCK_EX)
        begin_s = time.monotonic()
        with pytest.raises(ExecutorFailed, match="another run has been compiling in"):
            built_in(tmp_path, python_that(tmp_path, "exit 0"), {}, said.append)
    assert time.monotonic() - begin_s >= 0.3
    assert lock.exists(), "it is the other run's"
    assert "waiting" in said[0]


def test_naming_deepspeed_imports_no_torch() -> None:
    code = (
        "import sys; from twinlens.executors.registry import trainer; trainer('torch-deepspeed');"
        "sys.exit('torch' in sys.modules or 'deepspeed' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], env=dict(os.environ)).returncode == 0


@pytest.mark.torch
def test_a_parameter_that_stage_3_holds_elsewhere_is_counted_whole() -> None:
    from torch import nn

    from twinlens.executors.torch.evidence.memory import elements_of
    from twinlens.executors.torch.evidence.work import trainable

    model = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))  # 16 and 10 parameters
    assert trainable(model).value == 26
    first = model[0].weight
    first.ds_numel, first.data = first.numel(), first.data.new_empty(0)
    assert first.numel() == 0
    assert elements_of(first) == 12
    assert trainable(model).value == 26
