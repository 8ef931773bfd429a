"""Switches of servers: typed, turned into each runtime's flags, and held against what the server says that it runs."""

from __future__ import annotations

from typing import Any

import pytest
import recorded
from test_launch_recipes import command

from twinlens.errors import BadInput
from twinlens.executors.launch.options import options_of, settings_of
from twinlens.executors.launch.recipe import Recipe, ServerOutput
from twinlens.executors.launch.runtime import llama_cpp, sglang, tensorrt_llm, transformers_serve, vllm
from twinlens.executors.launch.switches import asked_of, findings_of, words_of
from twinlens.record.finding import Finding
from twinlens.reporting.wording.finding import sentence_of

PAGE = "/server_info?config_format=json"


def words(recipe: Recipe, **options: Any) -> str:
    return " ".join(words_of(recipe.switches, asked_of(recipe.switches, options)))


def found(recipe: Recipe, seen: ServerOutput, **options: Any) -> list[tuple[str, str]]:
    findings = findings_of(recipe.switches, asked_of(recipe.switches, options), recipe.facts(seen))
    return [(each.code, each.subject) for each in findings]


@pytest.mark.parametrize(
    ("recipe", "options", "flags"),
    [
        (vllm.RECIPE, {"prefix_caching": False}, "--no-enable-prefix-caching"),
        (vllm.RECIPE, {"chunked_prefill": True}, "--enable-chunked-prefill"),
        (
            vllm.RECIPE, {"ngram_tokens": 3},
            '--speculative-config {"method": "ngram", "prompt_lookup_max": 4, "prompt_lookup_min": 1, '
            '"num_speculative_tokens": 3}',
        ),
        (vllm.RECIPE, {"ngram_tokens": 0}, ""),
        (vllm.RECIPE, {"kv_format": "fp8-e4m3"}, "--kv-cache-dtype fp8_e4m3"),
        (vllm.RECIPE, {"kv_format": "int8"}, "--kv-cache-dtype int8_per_token_head"),
        (vllm.RECIPE, {"max_sequences": 4, "max_batched_tokens": 512}, "--max-num-seqs 4 --max-num-batched-tokens 512"),
        (vllm.RECIPE, {"max_context": 512, "prefix_caching": "auto"}, "--max-model-len 512"),
        (transformers_serve.RECIPE, {"continuous_batching": False}, "--no-continuous-batching"),
        (transformers_serve.RECIPE, {"attention": "eager"}, "--attn-implementation eager"),
        (sglang.RECIPE, {"prefix_caching": False}, "--disable-radix-cache"),
        (sglang.RECIPE, {"chunked_prefill_tokens": 0}, "--chunked-prefill-size -1"),
        (sglang.RECIPE, {"kv_format": "fp8-e5m2"}, "--kv-cache-dtype fp8_e5m2"),
        (sglang.RECIPE, {"ngram_tokens": 4}, "--speculative-algorithm NGRAM --speculative-num-draft-tokens 4"),
        (tensorrt_llm.RECIPE, {"chunked_prefill": True}, "--enable_chunked_prefill"),
        (tensorrt_llm.RECIPE, {"max_sequences": 8}, "--max_batch_size 8"),
        (vllm.RECIPE, {"memory_share": 0.8}, "--gpu-memory-utilization 0.8"),
        (vllm.RECIPE, {"memory_share": 1}, "--gpu-memory-utilization 1"),
        (sglang.RECIPE, {"memory_share": 0.85}, "--mem-fraction-static 0.85"),
        (tensorrt_llm.RECIPE, {"memory_share": 0.9}, "--kv_cache_free_gpu_memory_fraction 0.9"),
        (llama_cpp.RECIPE, {"max_batched_tokens": 256}, "--n_batch 256 --n_ubatch 256"),
        (llama_cpp.RECIPE, {"kv_format": "fp32", "flash_attention": "on"}, "--type_k 0 --type_v 0 --flash_attn true"),
    ],
)  # fmt: skip
def test_a_switch_is_the_flag_of_its_runtime(recipe: Recipe, options: dict[str, Any], flags: str) -> None:
    assert words(recipe, **options) == flags


def test_the_flags_of_switches_stand_before_further_words_of_the_spec() -> None:
    line, _ = command(vllm.RECIPE, options={"max_sequences": 4, "args": ["--max-num-seqs", "8"]})
    assert line.endswith("--max-num-seqs 4 --max-num-seqs 8"), "of two the last one counts"


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"prefix_caching": "yes"}, "prefix_caching is true, false or \"auto\", not 'yes'"),
        ({"prefix_caching": 1}, 'prefix_caching is true, false or "auto", not 1'),
        ({"ngram_tokens": -1}, 'ngram_tokens is a whole number from 0 or "auto", not -1'),
        ({"max_sequences": 0}, "max_sequences is a whole number from 1"),
        ({"max_sequences": True}, "max_sequences is a whole number from 1"),
        ({"memory_share": 0}, "memory_share is a share above 0 and at most 1 or"),
        ({"memory_share": True}, "memory_share is a share above 0"),
        ({"kv_format": "fp4"}, 'kv_format is "bf16", "fp16", "fp8-e4m3", "fp8-e5m2", "int8" or "auto"'),
        ({"prefix_cache": True}, "has no option 'prefix_cache'.*prefix_caching"),
    ],
)
def test_a_value_that_a_switch_does_not_take_is_one_sentence(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(BadInput, match=sentence) as caught:
        settings_of("vllm", options, "python", vllm.RECIPE.graphs, vllm.RECIPE.switches)
    assert caught.value.code == "TL207"


def test_a_word_of_the_runtime_cannot_be_a_flag() -> None:
    with pytest.raises(BadInput, match="attention is a word"):
        words(transformers_serve.RECIPE, attention="--trust-remote-code")


def test_what_vllm_says_of_its_switches_is_held_against_what_was_asked() -> None:
    seen = ServerOutput(pages={PAGE: recorded.VLLM_SWITCHED_INFO})
    same = {
        "prefix_caching": False, "chunked_prefill": False, "ngram_tokens": 3, "kv_format": "int8", "max_sequences": 16,
        "max_batched_tokens": 2048, "max_context": 1024, "kv_block_tokens": 128, "tensor_parallel": 1,
        "memory_share": 0.92,
    }  # fmt: skip
    assert set(same) == {switch.name for switch in vllm.RECIPE.switches}
    assert found(vllm.RECIPE, seen, **same) == []
    other = {
        "prefix_caching": True, "chunked_prefill": True, "ngram_tokens": 5, "kv_format": "fp8-e4m3", "max_sequences": 8,
        "max_batched_tokens": 512, "max_context": 512, "memory_share": 0.5,
        "kv_block_tokens": 64,
    }  # fmt: skip
    assert found(vllm.RECIPE, seen, **other) == [("switch-differs", name) for name in other]
    assert found(vllm.RECIPE, seen, ngram_tokens=0) == [("switch-differs", "ngram_tokens")]


def test_a_server_that_says_nothing_of_a_switch_is_not_believed() -> None:
    assert found(vllm.RECIPE, ServerOutput(), prefix_caching=False) == [("switch-not-seen", "prefix_caching")]
    argv = ("python", "serve", "--attn-implementation", "eager")
    seen = ServerOutput(argv=argv)
    assert found(transformers_serve.RECIPE, seen, attention="eager") == [("switch-not-seen", "attention")]


def test_sglang_and_tensorrt_llm_say_their_switches_in_what_was_recorded() -> None:
    page = ServerOutput(pages={"/server_info": recorded.SGLANG_INFO})
    assert found(sglang.RECIPE, page, prefix_caching=False, kv_format="fp8-e4m3", chunked_prefill_tokens=8192) == []
    assert found(sglang.RECIPE, page, prefix_caching=True) == [("switch-differs", "prefix_caching")]
    log = ServerOutput(log=recorded.TENSORRT_LOG)
    assert found(tensorrt_llm.RECIPE, log, chunked_prefill=False, max_sequences=64) == []
    assert found(tensorrt_llm.RECIPE, log, chunked_prefill=True) == [("switch-differs", "chunked_prefill")]


def test_llama_cpp_says_its_cache_its_attention_and_its_step_in_its_log() -> None:
    said = "llama_context: n_ubatch              = 256\nllama_context: flash_attn            = disabled\n"
    seen = ServerOutput(log=recorded.LLAMA_LOG + said)
    assert found(llama_cpp.RECIPE, seen, max_batched_tokens=256) == []
    assert found(llama_cpp.RECIPE, seen, max_batched_tokens=512) == [("switch-differs", "max_batched_tokens")]
    assert found(llama_cpp.RECIPE, seen, kv_format="fp16", flash_attention="off") == []
    assert found(llama_cpp.RECIPE, seen, kv_format="fp32") == [("switch-differs", "kv_format")]
    assert found(llama_cpp.RECIPE, seen, flash_attention="on") == [("switch-differs", "flash_attention")]


def test_a_switch_that_ran_otherwise_says_both_values_and_where_from() -> None:
    numbers = {"asked": False, "observed": True, "source": "/server_info"}
    assert sentence_of(Finding("switch-differs", "disqualifies", "prefix_caching", numbers)) == (
        "executor.options.prefix_caching = false was asked, and the server runs true (/server_info)."
    )
    assert "is not known" in sentence_of(Finding("switch-not-seen", "notes", "attention", {"asked": "sdpa"}))


@pytest.mark.parametrize(
    "recipe", [vllm.RECIPE, transformers_serve.RECIPE, sglang.RECIPE, tensorrt_llm.RECIPE, llama_cpp.RECIPE]
)
def test_every_switch_is_an_option_that_leaves_the_stack_as_shipped_unless_set(recipe: Recipe) -> None:
    options = options_of(recipe.graphs, recipe.switches)
    for switch in recipe.switches:
        assert options[switch.name].default == "auto"
        assert options[switch.name].tunes
    assert words(recipe) == ""
