"""Recipes: the command line of each runtime, and what is read from what real ones have printed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import recorded
from hypothesis import given
from hypothesis import strategies as st

import twinlens
from material import fixed, inference, spec_of
from twinlens.errors import BadInput
from twinlens.executors.launch.observe import checks
from twinlens.executors.launch.options import settings_of
from twinlens.executors.launch.recipe import Recipe, ServerOutput
from twinlens.executors.launch.runtime import llama_cpp, sglang, tensorrt_llm, transformers_serve, vllm
from twinlens.executors.launch.server import LaunchedServer, context_of, order_of
from twinlens.executors.registry import server_words
from twinlens.executors.settings_text import flat, labels, pairs, plain_setting, tensor_format
from twinlens.record.executor.record import ExecutorRecord, declared
from twinlens.spec.model.any_model import any_model
from twinlens.system.log import telling_line

RECIPES = [transformers_serve.RECIPE, vllm.RECIPE, llama_cpp.RECIPE, sglang.RECIPE, tensorrt_llm.RECIPE]


def command(recipe: Recipe, threads: int = 2, precision: str = "bf16", **executor: Any) -> tuple[str, dict[str, str]]:
    """The line and variables that start a server of `small` at port 8000, for prompts of 128 and answers of 32."""
    asked = {"device": "cpu", "threads": threads, "options": {}} | executor
    lengths = {"input_tokens": fixed(128), "output_tokens": fixed(32)}
    spec = spec_of(inference(recipe.kind, "small", executor=asked, point={"precision": precision}, **lengths))
    settings = settings_of(recipe.kind, spec.executor.options, "/venv/bin/python", recipe.graphs, recipe.switches)
    made = recipe.command(order_of(recipe, spec, settings, folder="/models/small", port=8000))
    return " ".join(made.argv), dict(made.environment)


def values(recipe: Recipe, **seen: Any) -> dict[str, Any]:
    facts = recipe.facts(ServerOutput(**seen))
    assert {fact.capture for fact in facts.values()} <= {"declared"}, "a server's word is not an observation"
    return {key: fact.value for key, fact in ExecutorRecord(facts).facts.items()}


def test_transformers_serve_is_started_with_continuous_batching_and_pinned_threads() -> None:
    line, environment = command(transformers_serve.RECIPE)
    assert line == (
        "/venv/bin/python -m transformers.cli.transformers serve /models/small --device cpu --dtype bfloat16 "
        "--host 127.0.0.1 --port 8000 --continuous-batching --cb-block-size 32 --cb-num-blocks 512 "
        "--cb-max-batch-tokens 512"
    )
    assert environment == {
        "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "2", "MKL_NUM_THREADS": "2", "OPENBLAS_NUM_THREADS": "2",
        "CUDA_VISIBLE_DEVICES": "",
    }  # fmt: skip


@pytest.mark.parametrize("kind", ["embed", "rerank"])
def test_vllm_pools_where_answers_come_in_one_piece(kind: str) -> None:
    task = {"task": {"kind": kind}, "arrival": {"kind": "closed"}, "point": {"precision": "bf16", "concurrency": 1}}
    spec = spec_of(inference("vllm", "small", executor={"device": "cpu", "threads": 2}, **task))
    settings = settings_of("vllm", {}, "/venv/bin/python", vllm.RECIPE.graphs, vllm.RECIPE.switches)
    made = vllm.RECIPE.command(order_of(vllm.RECIPE, spec, settings, folder="/models/small", port=8000))
    assert "--runner pooling" in " ".join(made.argv)
    assert "--runner" not in command(vllm.RECIPE)[0]


def test_vllm_is_started_by_its_module_and_tells_its_settings() -> None:
    line, environment = command(vllm.RECIPE, options={"args": ["--max-num-seqs", "16"]})
    assert line == (
        "/venv/bin/python -m vllm.entrypoints.openai.api_server --model /models/small --served-model-name small "
        "--host 127.0.0.1 --port 8000 --dtype bfloat16 --max-model-len 1024 --max-num-seqs 16"
    )
    assert environment["VLLM_SERVER_DEV_MODE"] == "1"
    assert len(environment["VLLM_CPU_OMP_THREADS_BIND"].split(",")) <= 2
    assert "--enforce-eager" in command(vllm.RECIPE, options={"graph": "eager"})[0], (
        "only where the spec says so: vLLM captures"
    )
    on_gpu, environment = command(vllm.RECIPE, device="cuda:3", precision="fp16")
    assert "--enforce-eager" not in on_gpu
    assert "--dtype float16" in on_gpu
    assert environment["CUDA_VISIBLE_DEVICES"] == "3"
    assert "VLLM_CPU_OMP_THREADS_BIND" not in environment


def test_llama_cpp_is_told_not_to_cut_off_running_answers(tmp_path: Path) -> None:
    gguf = tmp_path / "small.gguf"
    gguf.write_bytes(b"GGUF")
    line, _ = command(llama_cpp.RECIPE, options={"gguf": str(gguf)})
    assert line == (
        f"/venv/bin/python -m llama_cpp.server --model {gguf} --model_alias small --host 127.0.0.1 --port 8000 "
        "--n_ctx 1024 --n_threads 2 --n_threads_batch 2 --interrupt_requests false"
    )


def test_llama_cpp_without_a_gguf_says_that_nothing_is_converted() -> None:
    with pytest.raises(BadInput, match=r"does not convert to them; name one in executor\.options\.gguf") as caught:
        command(llama_cpp.RECIPE)
    assert caught.value.code == "TL207"


def test_sglang_is_started_with_its_metrics() -> None:
    line, environment = command(sglang.RECIPE, device="cuda:0")
    assert line == (
        "/venv/bin/python -m sglang.launch_server --model-path /models/small --served-model-name small "
        "--host 127.0.0.1 --port 8000 --dtype bfloat16 --context-length 1024 --enable-metrics"
    )
    assert environment["CUDA_VISIBLE_DEVICES"] == "0"
    assert command(sglang.RECIPE)[0].endswith("--enable-metrics --device cpu")
    assert "--disable-cuda-graph" in command(sglang.RECIPE, options={"graph": "eager"})[0]


def test_tensorrt_llm_is_started_by_the_command_beside_its_python() -> None:
    line, _ = command(tensorrt_llm.RECIPE, device="cuda", options={"python": "/trt/bin/python"})
    assert line == (
        "/trt/bin/trtllm-serve serve /models/small --backend pytorch --host 127.0.0.1 --port 8000 --max_seq_len 1024"
    )


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.kind)
def test_every_server_listens_on_the_loopback_interface_only(recipe: Recipe, tmp_path: Path) -> None:
    gguf = tmp_path / "x.gguf"
    gguf.write_bytes(b"GGUF")
    line, _ = command(recipe, options={"gguf": str(gguf)})
    assert "--host 127.0.0.1 --port 8000" in line


@pytest.mark.parametrize("recipe", [r for r in RECIPES if not r.needs_gguf], ids=lambda recipe: recipe.kind)
def test_a_precision_that_is_no_cast_is_refused(recipe: Recipe) -> None:
    with pytest.raises(BadInput) as caught:
        command(recipe, precision="int4-weight")
    assert caught.value.code == "TL203"


def test_which_launchers_were_never_run_by_their_authors_is_said() -> None:
    assert [recipe.kind for recipe in RECIPES if not recipe.tried] == ["sglang", "tensorrt-llm"]


def test_vllm_tells_its_limits_on_a_page() -> None:
    drawn_values = values(vllm.RECIPE, pages={"/server_info?config_format=json": recorded.VLLM_INFO})
    assert drawn_values == {
        "serving.batching": "continuous",
        "serving.max_sequences": 128,
        "serving.max_batched_tokens": 2048,
        "serving.chunked_prefill": True,
        "serving.prefix_cache": True,
        "serving.kv_block_tokens": 128,
        "serving.context_tokens": 1024,
        "serving.speculative": "none",
        "compiler.name": "none (eager)",
        "serving.graphs": "none (eager)",
        "serving.parallel": {"tensor_parallel": 2, "pipeline_parallel": 1, "data_parallel": 1},
        "precision.weights": "bf16",
        "precision.activations": "bf16",
        "precision.detail": "not quantised",
        "precision.kv": "bf16",
    }


def test_what_vllm_speculates_with_is_read_whole_from_its_nested_settings() -> None:
    info = {"vllm_config": {**recorded.VLLM_INFO["vllm_config"]}}
    info["vllm_config"]["speculative_config"] = {
        "method": "ngram", "model": "/models/draft", "num_speculative_tokens": 4, "draft_model_config": {"dtype": "x"},
    }  # fmt: skip
    drawn_values = values(vllm.RECIPE, pages={"/server_info?config_format=json": info})
    assert drawn_values["serving.speculative"] == {"method": "ngram", "model": "draft", "num_speculative_tokens": 4}
    assert drawn_values["precision.weights"] == "bf16", "the draft's own settings are not the model's"


def test_vllm_without_that_page_is_read_from_its_log_and_its_metrics() -> None:
    drawn_values = values(
        vllm.RECIPE, log=recorded.VLLM_LOG, metrics=recorded.VLLM_METRICS, pages={"/version": {"version": "0.32.0"}}
    )
    assert drawn_values["software.runtime.version"] == "0.32.0"
    assert drawn_values["precision.weights"] == "bf16"
    assert drawn_values["precision.kv"] == "fp8-e4m3"
    assert drawn_values["serving.kv_block_tokens"] == 128
    assert drawn_values["serving.prefix_cache"] is True, "the engine's own line is nearer than a metric's label"
    assert "serving.max_sequences" not in drawn_values


def test_sglang_is_read_from_its_page_but_its_real_limit_from_its_log() -> None:
    asked_for = values(sglang.RECIPE, pages={"/server_info": recorded.SGLANG_INFO})
    assert asked_for["serving.max_sequences"] == 32
    drawn_values = values(sglang.RECIPE, pages={"/get_server_info": recorded.SGLANG_INFO}, log=recorded.SGLANG_LOG)
    assert drawn_values["serving.max_sequences"] == 9
    assert drawn_values["software.runtime.version"] == "0.5.19"
    assert drawn_values["precision.kv"] == "fp8-e4m3"
    assert drawn_values["serving.prefix_cache"] is False
    assert drawn_values["serving.graphs"] == "captured"
    assert drawn_values["serving.speculative"] == "EAGLE"
    assert drawn_values["serving.parallel"] == {"tensor_parallel": 8, "pipeline_parallel": 1, "data_parallel": 1}


def test_sglang_without_a_page_is_read_from_its_log() -> None:
    drawn_values = values(sglang.RECIPE, log=recorded.SGLANG_LOG)
    assert drawn_values["serving.attention"] == "fa3"
    assert drawn_values["serving.chunked_prefill"] == 8192
    assert drawn_values["serving.graphs"] == "none (eager)"
    assert "precision.weights" not in drawn_values, "auto says nothing"


def test_tensorrt_llm_is_read_from_its_log_the_last_limits_counting() -> None:
    assert values(tensorrt_llm.RECIPE, log=recorded.TENSORRT_LOG) == {
        "software.runtime.version": "1.1.0rc3",
        "serving.batching": "continuous (in flight)",
        "serving.attention": "TRTLLM",
        "serving.graphs": "captured",
        "serving.chunked_prefill": False,
        "serving.prefix_cache": True,
        "serving.max_sequences": 64,
        "serving.max_batched_tokens": 8192,
        "serving.kv_block_tokens": 32,
        "serving.context_tokens": 86720,
    }
    assert values(tensorrt_llm.RECIPE, pages={"/version": {"version": "1.2.0"}})["software.runtime.version"] == "1.2.0"


def test_llama_cpp_is_read_from_its_log() -> None:
    drawn_values = values(llama_cpp.RECIPE, log=recorded.LLAMA_LOG)
    assert (drawn_values["precision.weights"], drawn_values["precision.detail"]) == ("fp16", "F16")
    quantised = values(llama_cpp.RECIPE, log=recorded.LLAMA_LOG.replace("= F16", "= Q4_K - Medium"))
    assert (quantised["precision.weights"], quantised["precision.detail"]) == ("int4", "Q4_K - Medium")
    assert drawn_values["precision.kv"] == "fp16"
    assert drawn_values["serving.max_sequences"] == 1


def test_the_cache_of_a_gguf_file_is_the_runtimes_own_unless_it_is_asked_for() -> None:
    spec = spec_of(inference("llama-cpp", "small", point={"precision": "int8-dynamic"}))
    fields = {"precision.kv": declared("fp16", "the log")}
    (left,) = (each for each in checks(spec, fields, ("kv",)) if each.tensor_class == "kv")
    assert (left.declared, left.verdict) == ("as shipped", "unknown")
    (asked,) = (each for each in checks(spec, fields) if each.tensor_class == "kv")
    assert (asked.declared, asked.verdict) == ("fp32", "differs")


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.kind)
@given(text=st.text(max_size=200), page=st.recursive(st.none() | st.text() | st.integers(), st.lists, max_leaves=5))
def test_no_server_can_say_anything_that_breaks_the_reading(recipe: Recipe, text: str, page: Any) -> None:
    seen = ServerOutput(pages=dict.fromkeys(recipe.pages, page), metrics=text, log=text, argv=[text])
    ExecutorRecord(recipe.facts(seen))


def test_a_tensor_class_differs_only_where_the_server_says_so() -> None:
    spec = spec_of(inference("vllm", point={"precision": "bf16"}))
    said = {"precision.weights": declared("bf16", "its page"), "precision.kv": declared("fp8-e4m3", "its page")}
    verdicts = {check.tensor_class: (check.verdict, check.observed) for check in checks(spec, said)}
    assert verdicts == {
        "weights": ("unknown", None), "activations": ("unknown", None), "accumulation": ("unknown", None),
        "kv": ("differs", "fp8-e4m3"),
    }  # fmt: skip


def test_the_context_has_room_for_templates_and_never_more_than_the_model() -> None:
    def asked(model: str, **parts: Any) -> int:
        lengths = {"input_tokens": fixed(3000), "output_tokens": fixed(1000)} | parts
        return context_of(any_model(model), spec_of(inference("vllm", model, **lengths)).workload)  # type: ignore[arg-type]

    closed = {"arrival": {"kind": "closed"}, "point": {"concurrency": 1}}
    assert asked("llama-3.1-8b") == 2 * (3000 + 1000 + 64)
    assert asked("llama-3.1-8b", input_tokens=fixed(10), output_tokens=fixed(10)) == 2048
    assert asked("tiny") == 512
    assert asked("llama-3.1-8b", prefix={"tokens": 500}, **closed) == 2 * (3000 + 1000 + 64) + 1000
    assert asked("llama-3.1-8b", sessions={"turns": fixed(3)}, **closed) == 8192


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"pyton": "x"}, "did you mean 'python'"),
        ({"env": {"HF_TOKEN": "x"}}, "'HF_TOKEN' looks like a secret"),
        ({"env": {"my_api_key": "x"}}, "looks like a secret"),
        ({"args": ["--api-key", "x"]}, "'api_key' looks like a secret"),
        ({"args": ["--api-key=x"]}, "'api_key' looks like a secret"),
        ({"args": "--flag"}, "args is a list of words"),
        ({"env": {"A": 1}}, "env is a table of strings"),
        ({"start_timeout_s": -1}, "start_timeout_s cannot be -1"),
        ({"start_timeout_s": True}, "start_timeout_s cannot be True"),
        ({"python": 3}, "python is a path"),
        ({"url": "http://127.0.0.1"}, "has no option 'url'"),
        ({"cpus": [9999]}, "a list of logical processors"),
        ({"cpus": "0"}, "a list of logical processors"),
        ({"cpus": [True]}, "a list of logical processors"),
    ],
)
def test_an_option_that_cannot_be_is_one_clear_sentence(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(BadInput, match=sentence) as caught:
        settings_of("vllm", options, "python")
    assert caught.value.code == "TL207"


def test_a_variable_that_only_resembles_a_secret_is_let_through() -> None:
    settings = settings_of(
        "vllm", {"env": {"TOKENIZERS_PARALLELISM": "false"}, "args": ["--max-tokens", "3"]}, "python"
    )
    assert settings.environment == {"TOKENIZERS_PARALLELISM": "false"}


@pytest.mark.parametrize(
    ("log", "line"),
    [
        ("a\nValueError: too small\n  at exit\n", "ValueError: too small"),
        ("(EngineCore pid=7) torch.OutOfMemoryError: CUDA.\nbye", "torch.OutOfMemoryError: CUDA."),
        ("/usr/bin/python: No module named vllm\n", "/usr/bin/python: No module named vllm"),
        ("[Errno 98] address already in use\nINFO: done", "[Errno 98] address already in use"),
        (
            "RuntimeError: Worker failed with 'no kernel'\nRuntimeError: Engine failed. See root cause above.\n",
            "RuntimeError: Worker failed with 'no kernel'",
        ),
        ("one\ntwo\n\n", "two"),
        ("", "it printed nothing"),
    ],
)  # fmt: skip
def test_the_telling_line_is_the_last_thing_that_went_wrong(log: str, line: str) -> None:
    assert telling_line(log) == line


@pytest.mark.parametrize(
    ("precision", "options", "what"),
    [
        ("bf16", {"kv_format": "int8"}, "executor.options.kv_format = 'int8'"),
        ("int4-weight-gptq", {}, "point.precision = 'int4-weight-gptq'"),
    ],
)
def test_what_vllm_has_no_kernels_for_is_refused_before_it_starts(
    monkeypatch: pytest.MonkeyPatch, precision: str, options: dict[str, Any], what: str
) -> None:
    spec = spec_of(
        inference(
            "vllm",
            "small",
            options=options,
            arrival={"kind": "poisson"},
            point={"precision": precision, "rate_per_s": 1.0},
        )
    )
    monkeypatch.setattr(vllm, "x86_lacks", lambda flag: True)
    for absent in ("refuse_missing", "versions_in"):
        monkeypatch.setattr(f"twinlens.executors.launch.server.{absent}", lambda *given: None)
    with pytest.raises(BadInput, match=f"no kernels for {re.escape(what)} on a processor without AVX-512") as caught:
        LaunchedServer(vllm.RECIPE).refuse_not_installed(spec)
    assert caught.value.code == "TL203"


def test_words_of_servers_are_read_as_what_they_spell() -> None:
    assert [plain_setting(word) for word in ("True", "None", "12", "auto", 3, "")] == [True, None, 12, "auto", 3, None]
    assert tensor_format("torch.float8_e4m3fn") == "fp8-e4m3"
    assert tensor_format("auto") is None
    assert flat({"a": {"x": 1, "y": 2}, "b": {"x": 3}, "y": 4}) == {"x": 1, "y": 2}
    assert labels('m_total{a="1"} 2\nm{a="3",b="x\\"y"} 1\n', "m") == {"a": "3", "b": 'x\\"y'}
    assert pairs("x Config(a=1, b=[1, 2], c='d e', f=1.5)", "Config(") == {
        "a": "1",
        "b": "[1, 2]",
        "c": "d e",
        "f": "1.5",
    }


def test_the_words_of_a_runtime_stand_in_its_own_file() -> None:
    source = Path(twinlens.__file__).parent
    own = {
        "vllm": ("kv_cache_usage_perc", "vllm_config", "enforce_eager", "speculative_config", "max_num_seqs"),
        "sglang": ("num_retracted_requests_total", "disable_radix_cache", "sgl-kernel", "max_prefill_tokens"),
        "tensorrt_llm": ("kv_cache_missed_blocks_total", "PyTorchConfig("),
    }
    # Rules of the simulator are flags of vLLM, and its server gives vLLM's metrics; the batching lab asks it,
    # and a gateway predicts by it.
    simulator = {"simulation", "simulating", "simulated", "lab.py", "predict.py"}
    others = [path for path in source.rglob("*.py") if not simulator & {*path.parts}]
    for runtime, words in own.items():
        for word in words:
            found = {path.stem for path in others if word in path.read_text(encoding="utf-8")}
            # The small server of the self-test is asked as vLLM is, so that the same reader reads it.
            # And openvino-genai's scheduler has a field of vLLM's name.
            assert found - {"small_server", "served", "questions"} == {runtime}, word


def test_the_names_of_every_launchers_metrics_are_known_of_any_server() -> None:
    prefixes = {words.prefix for words in server_words()}
    assert {"vllm", "sglang", "trtllm"} <= prefixes


@pytest.mark.parametrize(
    ("said", "stored"),
    [
        ("all F32 (guessed)", "fp32"),
        ("BF16", "bf16"),
        ("Q8_0", "int8"),
        ("Q4_0", "int4"),
        ("Q4_K - Medium", "int4"),
        ("IQ4_XS - 4.25 bpw", "int4"),
        ("Q5_K - Medium", "Q5_K - Medium"),
    ],
)
def test_a_gguf_file_says_what_its_weights_are_stored_in(said: str, stored: str) -> None:
    """`int8-weight` agrees with a Q8_0 file, `int4-weight` with a Q4 one; what has no name here keeps its own."""
    assert llama_cpp._named(said) == stored
