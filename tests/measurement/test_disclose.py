"""Facts are observed or absent with a reason: nothing is typed into a record that the run does not show."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from material import inference, spec_of, training
from server_samples import samples
from twinlens.executors.launch.options import settings_of
from twinlens.executors.launch.runtime import llama_cpp, transformers_serve
from twinlens.executors.launch.server import order_of
from twinlens.executors.registry import capabilities, executor_names
from twinlens.measurement.facts.completed import marked, seen_afterwards
from twinlens.measurement.facts.provenance import provenance
from twinlens.measurement.machine.software import performance_environment
from twinlens.record.executor.facts import Facts, FidelityRow
from twinlens.record.executor.record import ExecutorRecord, Fact, PrecisionCheck, observed, unknown

EMPTY = Facts(ExecutorRecord({}))
COMPARED = Facts(ExecutorRecord({}), fidelity=(FidelityRow(4, 4, 0.0, 1.0, 1.0),))
AT_RATE: dict[str, Any] = {"arrival": {"kind": "poisson"}, "point": {"rate_per_s": 2.0}}


def facts(data: dict[str, Any], said: Facts = EMPTY) -> dict[str, Fact]:
    return provenance(spec_of(data), said)


def vllm(**parts: Any) -> dict[str, Any]:
    return inference("vllm", "small", **(AT_RATE | parts))


def test_a_served_run_types_no_cache_hits_into_its_record() -> None:
    fields = facts(vllm(prefix={"tokens": 32, "share": 0.5}))
    assert fields["decoding.cache_hit_ratio"].value is None
    assert "32 tokens" in str(fields["decoding.system_prompt"].value), "a shared prefix is sent as the system message"
    plain = facts(vllm())["decoding.system_prompt"]
    assert plain.value is None
    assert "chat template" in str(plain.reason)


def test_only_outputs_that_were_compared_have_a_quality_metric() -> None:
    names = ("quality.metric", "quality.reference", "quality.tolerance")
    for name in names:
        assert facts(vllm())[name].value is None
        assert facts(inference("fake"), EMPTY)[name].value is None
        assert facts(inference("torch", point={"precision": "bf16"}), COMPARED)[name].value
    assert facts(inference("torch"))["quality.metric"].value, "fp32 is what the others are compared with"


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ({}, "B0 stock"),
        ({"options": {"graph": "eager"}}, "not stock: graph eager"),
        ({"options": {"args": ["--max-num-seqs", "16"]}}, "not stock: --max-num-seqs 16"),
        ({"options": {"env": {"VLLM_USE_V1": "0"}}}, "not stock: VLLM_USE_V1=0"),
    ],
)
def test_stock_is_what_nothing_was_set_for(parts: dict[str, Any], words: str) -> None:
    fields = facts(vllm(**parts))
    assert str(fields["protocol.tier"].value).startswith(words)
    assert (fields["protocol.budget"].value is None) == words.startswith("not")


def test_what_a_launcher_sets_unasked_is_not_called_stock() -> None:
    tier = facts(inference("transformers-serve", "small", **AT_RATE))["protocol.tier"]
    assert str(tier.value).startswith("not stock: --continuous-batching, --cb-block-size")
    for kind in executor_names():
        can = capabilities(kind)
        ours = kind in ("torch", "torch-parallel", "fake", "replay")
        assert not (ours and can.unasked), "an engine of ours has its own defaults"


def test_every_flag_set_unasked_is_in_the_command() -> None:
    for recipe in (transformers_serve.RECIPE, llama_cpp.RECIPE):
        options = {"gguf": __file__} if recipe.needs_gguf else {}
        spec = spec_of(
            inference(
                recipe.kind, "small", options=options, **(AT_RATE | {"point": {"rate_per_s": 2.0, "precision": "bf16"}})
            )
        )
        settings = settings_of(recipe.kind, spec.executor.options, "python", recipe.graphs, recipe.switches)
        line = " ".join(recipe.command(order_of(recipe, spec, settings, folder="/models/small", port=1)).argv)
        assert all(flag in line for flag in recipe.unasked)


def test_eager_is_what_torch_does_unasked_and_an_attached_server_is_not_known() -> None:
    for options in ({}, {"graph": "eager"}):
        tier = facts(training(options=options))["protocol.tier"]
        assert str(tier.value).startswith("B0 stock")
    assert facts(training(options={"graph": "compiled"}))["protocol.tier"].value == "not stock: graph compiled"
    attached = facts(inference("openai-http", options={"url": "http://127.0.0.1:1/v1"}, **AT_RATE))
    assert attached["protocol.tier"].value is None


def test_data_has_the_hash_of_its_files_and_words(tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("some words")
    digest = hashlib.sha256(b"some words").hexdigest()
    trained = facts(training(data={"kind": "text", "path": str(text)}))["workload.data_hash"].value
    assert (trained["data"]["sha256"], trained["data"]["path"]) == (digest, "text.txt")
    prompted = facts(vllm(prompts={"kind": "file", "path": str(text)}))["workload.data_hash"].value
    assert prompted["prompts"]["sha256"] == digest
    assert "data" not in prompted, "a server over HTTP never sees the tokens of workload.data"
    assert len(facts(vllm())["workload.data_hash"].value["prompts"]["sha256"]) == 64
    trace = {"kind": "trace", "path": str(text), "format": "csv"}
    traced = facts(inference("vllm", "small", arrival=trace))
    assert traced["workload.data_hash"].value["trace"]["sha256"] == digest
    assert traced["workload.input_tokens"].value == "as recorded in the trace"
    text.unlink()
    gone = facts(training(data={"kind": "text", "path": str(text)}))["workload.data_hash"]
    assert "could not be read" in str(gone.reason)


def write(folder: Path, *rows: dict[str, Any]) -> Path:
    table = samples(rows)
    with pa.ipc.new_stream(str(folder / "server.arrows"), table.schema) as file:
        file.write_table(table)
    return folder


def test_the_share_of_cached_input_is_what_the_server_counted_over_the_run(tmp_path: Path) -> None:
    asked = Facts(ExecutorRecord({"decoding.cache_hit_ratio": unknown("not yet")}))
    began = {"at": 0.0, "prefix_queries": 100, "prefix_hits": 50}
    folder = write(tmp_path, began, {"at": 9.0, "prefix_queries": 300, "prefix_hits": 180})
    assert seen_afterwards(folder, asked)["decoding.cache_hit_ratio"].value == 0.65
    write(tmp_path, {"at": 0.0, "generation_tokens": 1}, {"at": 1.0, "generation_tokens": 9})
    assert seen_afterwards(folder, asked)["decoding.cache_hit_ratio"].value is None
    off = Facts(asked.executor.merged({"serving.prefix_cache": observed(False, "its page")}))
    assert seen_afterwards(folder, off)["decoding.cache_hit_ratio"].value == 0.0
    known = Facts(ExecutorRecord({"decoding.cache_hit_ratio": observed(0.0, "our own engine")}))
    assert seen_afterwards(folder, known) == {}


def test_what_a_plug_in_says_that_it_saw_is_marked_as_its_word() -> None:
    class Stranger: ...

    said = {"precision.weights": observed("bf16", "its tensors"), "serving.graphs": unknown("it does not say")}
    check = PrecisionCheck("compute", "fp32", "bf16", "differs", "native", "its kernels")
    found = marked(Facts(ExecutorRecord(said), (check,)), spec_of(inference("fake")), Stranger())
    assert found.executor.facts["precision.weights"].source.startswith("said by the plug-in ")
    assert found.precision[0].evidence.startswith("said by the plug-in ")
    assert found.executor.facts["serving.graphs"] == said["serving.graphs"]


def test_variables_that_servers_inherit_are_recorded_and_keys_are_not() -> None:
    environment = {
        "VLLM_ATTENTION_BACKEND": "FLASHINFER", "SGLANG_X": "1", "TRITON_CACHE_DIR": "/t", "FLASHINFER_JIT": "0",
        "NVIDIA_VISIBLE_DEVICES": "all", "VLLM_API_KEY": "hunter2", "CUDA_VISIBLE_DEVICES": "GPU-a,GPU-b",
        "EDITOR": "v",
    }  # fmt: skip
    found = performance_environment(environment)
    assert found.pop("VLLM_API_KEY") == "set, and not recorded"
    assert found.pop("CUDA_VISIBLE_DEVICES") == "2 by UUID", "which boards is no part of a stack's identity"
    assert found == {
        "VLLM_ATTENTION_BACKEND": "FLASHINFER", "SGLANG_X": "1", "TRITON_CACHE_DIR": "a path", "FLASHINFER_JIT": "0",
        "NVIDIA_VISIBLE_DEVICES": "all",
    }  # fmt: skip
