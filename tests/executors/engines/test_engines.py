"""What engines in this process share besides torch, and what ONNX Runtime's recorded profile says. No engine runs."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from material import inference, quiet, spec_of
from twinlens.errors import BadInput, ExecutorFailed
from twinlens.executors.in_process.engine import Evidence, Runtime
from twinlens.executors.in_process.engine_server import EngineServer, facts_of
from twinlens.executors.in_process.export import Export, exported
from twinlens.executors.in_process.player import rows_of
from twinlens.executors.in_process.torch_work import TorchWork
from twinlens.executors.onnxruntime.trace import Node, phases_of, shares, strays
from twinlens.executors.refuse import refuse_unsupported
from twinlens.reporting.wording.finding import sentence_of
from twinlens.schedule.request import ScheduledRequest

PROFILE: list[dict[str, Any]] = json.loads(Path(__file__).with_name("onnxruntime_profile.json").read_text())
"""A prefill of 3 × 16 tokens and a decode step of the model "tiny" at int8, onnxruntime 1.31.1."""


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TWINLENS_CACHE", str(tmp_path))
    return tmp_path


def test_an_export_is_made_once_and_its_time_and_size_are_kept() -> None:
    made: list[Path] = []

    def make(folder: Path) -> None:
        made.append(folder)
        (folder / "model").write_bytes(b"12345")

    first, second = exported("engine", "one", make), exported("engine", "one", make)
    assert first == second
    assert (len(made), first.size_bytes) == (1, 5)
    assert (first.path / "model").read_bytes() == b"12345"
    assert made[0] != first.path, "it is made under another name"


def test_an_export_that_fails_half_way_leaves_nothing_that_could_be_loaded(cache: Path) -> None:
    def fail(folder: Path) -> None:
        (folder / "model").write_bytes(b"half")
        raise ExecutorFailed("the builder died", code="TL302")

    with pytest.raises(ExecutorFailed, match="the builder died"):
        exported("engine", "one", fail)
    assert list((cache / "exports" / "engine").iterdir()) == []
    assert exported("engine", "one", lambda folder: None).size_bytes == 0, "the next one is made from nothing"


def test_what_a_kill_left_half_made_is_not_read(cache: Path) -> None:
    left = cache / "exports" / "engine" / ".one.abc"
    left.mkdir(parents=True)
    (left / "model").write_bytes(b"half")
    whole = exported("engine", "one", lambda folder: (folder / "model").write_bytes(b"whole") and None)
    assert (whole.path / "model").read_bytes() == b"whole"


def test_rows_of_a_batch_share_its_times_and_an_image_has_no_tokens() -> None:
    upcoming = tuple(ScheduledRequest(n, 0, 0, 16, 3, (0, n)) for n in range(2))
    rows = rows_of(upcoming, 5, [7, 8, 9], is_text=True)
    assert [(row.sent_ns, row.chunk_ns, row.chunk_tokens, row.end_ns) for row in rows] == [
        (5, (7, 8, 9), (1, 1, 1), 9)
    ] * 2
    assert rows_of(upcoming, 5, [7], is_text=False)[0].output_tokens == 0


def test_a_package_that_is_missing_is_one_sentence_that_names_the_extra() -> None:
    def missing(spec: Any) -> Runtime:
        raise ImportError("No module named 'onnxruntime_genai'")

    with pytest.raises(BadInput, match=r"install its extra: pip install 'twinlens\[onnxruntime\]'") as refused:
        EngineServer("onnxruntime", missing).open(spec_of(inference("onnxruntime")), quiet)
    assert refused.value.code == "TL207"
    assert "\n" not in str(refused.value)


def test_a_precision_that_does_not_load_is_refused_with_its_reason() -> None:
    spec = spec_of(inference("onnxruntime", point={"precision": "bf16"}))
    with pytest.raises(BadInput, match=r"runs fp32, int8-dynamic, int4-dynamic.*no bf16 kernels") as refused:
        refuse_unsupported(spec)
    assert refused.value.code == "TL203"


def test_the_profile_is_told_by_phase_and_product() -> None:
    phases = phases_of(PROFILE)
    assert set(phases) == {"prefill", "decode"}
    counts = {phase: sum(node.operator == "MatMulNBits" for node in nodes) for phase, nodes in phases.items()}
    assert counts == {"prefill": 11, "decode": 11}, "two layers of five products and the head"
    assert shares(phases["decode"], "int8") == {"int8": 1.0}
    assert shares(phases["decode"], "fp32") == {"fp32": 1.0}, "the same operator where weights are widened"
    assert phases_of([]) == {}
    assert strays(phases) == ()


def test_operators_on_another_provider_are_found_and_said() -> None:
    here = Node("MatMul", "CPUExecutionProvider", 0.75, "fp32", 300.0)
    away = Node("Gather", "CUDAExecutionProvider", 0.25, "fp32")
    (found,) = strays({"prefill": [here, away], "decode": [here]})
    assert found.numbers == {"operators": ["Gather"], "share": pytest.approx(0.25 / 1.75)}
    assert "14.3% of the time went to operators that CPUExecutionProvider does not run: Gather." in sentence_of(found)


def test_a_product_counts_by_its_flop_and_not_by_its_time() -> None:
    """Two activations multiplied (attention) are no product with weights; a window whose weights are not seen is not
    guessed."""

    def ran(operator: str, given: list[list[int]], made: list[int], us: int = 1) -> dict[str, Any]:
        said = {"op_name": operator, "input_type_shape": [{"uint8" if "Q" in operator else "float": s} for s in given]}
        said["output_type_shape"] = [{"float": made}]
        return {"cat": "Node", "name": f"{operator}_kernel_time", "ts": 1, "dur": us, "args": said}

    run = {"cat": "Session", "name": "model_run", "ts": 0, "dur": 99}
    integer = ran("QLinearMatMul", [[2, 17, 64], [], [], [64], [64]], [2, 17, 128])
    wide = ran("Gemm", [[2, 64]], [2, 10], us=50)
    attention = ran("MatMul", [[2, 4, 17, 16], [2, 4, 16, 17]], [2, 4, 17, 17])
    window = ran("Conv", [[2, 3, 32, 32]], [2, 64, 4, 4])
    nodes = phases_of([run, integer, wide, attention], "image", "image")["image"]
    assert [node.flop for node in nodes] == [2 * 2 * 17 * 128 * 64, 2 * 2 * 10 * 64, 0.0]
    assert shares(nodes, None) == {"int8": pytest.approx(4352 / 4372), "fp32": pytest.approx(20 / 4372)}
    (seen,) = phases_of([run, window], "image", "image", {"Conv": 192})["image"]
    assert seen.flop == 2 * 2 * 64 * 16 * 192
    (unseen,) = phases_of([run, window], "image", "image")["image"]
    assert unseen.flop is None
    assert shares([seen, unseen], None) == {}


def test_a_dequantised_product_is_not_called_int8() -> None:
    spec = spec_of(inference("onnxruntime", point={"precision": "int8-dynamic"}))
    ran = {phase: shares(nodes, "fp32") for phase, nodes in phases_of(PROFILE).items()}
    evidence = Evidence({"weights": {"int8": 100}, "kv": {"fp32": 100}}, ran, "", {})
    beside = TorchWork(np.zeros((1, 1, 1)), {}, {"int8": "native", "fp32": "native"}, "2.13")
    export = Export(Path(), 1.5, 3_000_000)
    facts = facts_of(spec, spec.model.known(), evidence, beside, export, [(2, 3, "int8")])
    verdicts = {check.tensor_class: (check.verdict, check.observed) for check in facts.precision}
    assert verdicts["compute"] == ("differs", "fp32")
    assert verdicts["weights"] == ("agrees", "int8")
    assert facts.work["linear_bytes"].value == 6
    assert any("exported in 1.5 s to 2.86 MiB" in sentence_of(finding) for finding in facts.findings)
    whole = facts_of(spec, spec.model.known(), replace(evidence, ran={"prefill": {"int8": 1.0}}), beside, export, [])
    assert {check.verdict for check in whole.precision} == {"agrees", "unknown"}
