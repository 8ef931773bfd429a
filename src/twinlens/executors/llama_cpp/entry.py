"""The capabilities of the llama.cpp executor in this process; its packages are imported when a run is opened."""

from __future__ import annotations

from twinlens.executors.capabilities import SETTINGS, Capabilities, Option
from twinlens.executors.in_process.entry import engine_executor, runtime_at

STEP_TOKENS = 512  # llama.cpp's own
_OPTIONS = {
    "settings": SETTINGS,
    "kv_format": Option(
        "auto",
        ("auto", "fp32", "fp16"),
        tunes=True,
        description="The number format of the KV cache, apart from that of the precision.",
    ),
    "flash_attention": Option(
        "auto",
        ("auto", "on", "off"),
        tunes=True,
        description='Flash attention, which rounds to fp16 inside; "auto" is off at fp32, else as llama.cpp decides.',
    ),
    "max_batched_tokens": Option(
        STEP_TOKENS,
        tunes=True,
        description="Tokens that llama.cpp computes in one step at most (n_ubatch); longer prompts take several.",
        within=(1, 65536),
    ),
}


EXECUTOR = engine_executor(
    "llama-cpp-engine",
    Capabilities(
        families=("decoder",),
        precisions=("fp32", "fp16", "int8-dynamic", "int4-dynamic"),
        settings=("threads",),
        options=_OPTIONS,
        computes_with="llama-cpp-python",
        packages=("llama-cpp-python",),
        install="pip install 'twinlens[llama-cpp-engine]' (it is built from source: a C++ compiler and minutes)",
        is_sized_by_theory=True,
        quantises=True,
        compares_with_fp32=True,
        # llama.cpp itself keeps the cache in fp16 whatever the weights are, and rounds to fp16 inside flash attention.
        unasked=("KV format as the precision says, and at fp32 no flash attention",),
    ),
    lambda spec: runtime_at("twinlens.executors.llama_cpp.decoder:RUNTIME"),
)
