"""Every executor installed here keeps the contract that `twinlens.testing` holds a stranger's to."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from material import for_rows, inference, measured, quiet, spec_of, training
from one_answer_server import OneAnswer, serving
from twinlens.errors import BadInput
from twinlens.executors.registry import executor_names, launches, trainer
from twinlens.network.null_server import null_server
from twinlens.record.step import Marks
from twinlens.record.store import read_run
from twinlens.reporting.wording.finding import sentence_of
from twinlens.testing import conformance

MODELS = ("tiny", "vit-tiny", "resnet-tiny")
INSTALLED_HERE = ("transformers-serve",)
"""Of our launchers; the others' runtimes have environments of their own, and tests in executors/launch."""
STARTS_PROCESSES = ("torch-parallel", "torch-deepspeed", "torch-collectives")
"""Starting them takes half a minute: executors/test_torch_parallel_runs.py, test_deepspeed_runs.py and
test_exchange_runs.py run them, under the marker `slow`."""
LOG = Path(__file__).parent / "four_steps.log"
RUNS: dict[tuple[str, str], Path] = {}
URL: list[str] = []
IMAGES: list[str] = []


@pytest.fixture(scope="session", autouse=True)
def recordings(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], Path]:
    """One recorded run per lens and model, for what plays recordings."""
    folder = tmp_path_factory.mktemp("recorded")
    for lens, make in {"training": training, "inference": inference}.items():
        for model in MODELS:
            RUNS[lens, model] = measured(folder, make("fake", model, protocol=for_rows(24))).folder
    return RUNS


@pytest.fixture(scope="session", autouse=True)
def url() -> Iterator[str]:
    """A server for what needs one that is already up."""
    with null_server(0.002, 0.001) as found:
        URL.append(found.url)
        yield found.url


@pytest.fixture(scope="session", autouse=True)
def images() -> Iterator[str]:
    """A server of the KServe v2 protocol."""
    with serving(OneAnswer()) as found:
        IMAGES.append(found.url)
        yield found.url


OPTIONS: dict[str, Any] = {
    "openai-http": lambda lens, model: {"url": URL[0]},
    "kserve-http": lambda lens, model: {"url": IMAGES[0], "model": "m"},
    "replay": lambda lens, model: {"run": str(RUNS[lens, model])},
    "trainer-log": lambda lens, model: {"log": str(LOG), "tokens_per_step": 128 if model == "tiny" else 0},
}
ENGINES = ("onnxruntime", "onnxruntime-served", "openvino", "openvino-served", "llama-cpp-engine", "tensorrt")
"""Engines with packages of their own: `make test-slow` installs them, tests/executors/engines runs them; of
TensorRT there is recorded output only."""
for kind in executor_names():
    starts = kind in INSTALLED_HERE or not (launches(kind) or kind in (*ENGINES, *STARTS_PROCESSES))
    suite = conformance(kind, OPTIONS.get(kind), executor={"device": "cpu"}, starts=starts)
    globals()[f"Test_{kind.replace('-', '_')}"] = suite


def test_a_replay_gives_the_recorded_steps_and_then_ends(recordings: dict[tuple[str, str], Path]) -> None:
    folder = recordings["training", "tiny"]
    recorded = [Marks(**row) for row in read_run(folder).table.to_pylist()]
    player = trainer("replay")
    facts = player.open(spec_of(training("replay", options={"run": str(folder)})), quiet)
    assert [player.step() for _ in recorded] == recorded
    with pytest.raises(StopIteration):
        player.step()
    assert any("Replayed from" in note for note in map(sentence_of, facts.findings))


def test_a_replay_measured_again_is_row_for_row_the_recording(
    recordings: dict[tuple[str, str], Path], tmp_path: Path
) -> None:
    for lens, make in (("training", training), ("inference", inference)):
        folder = recordings[lens, "tiny"]
        again = measured(tmp_path, make("replay", options={"run": str(folder)}))
        assert again.table.equals(read_run(folder).table)
        assert again.table.num_rows >= 24


def test_a_replay_of_the_other_lens_is_refused(recordings: dict[tuple[str, str], Path]) -> None:
    recorded = str(recordings["inference", "tiny"])
    with pytest.raises(BadInput, match="inference lens"):
        trainer("replay").open(spec_of(training("replay", options={"run": recorded})), quiet)
