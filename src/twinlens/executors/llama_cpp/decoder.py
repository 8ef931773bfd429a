"""A decoder in llama.cpp: one batch of sequences by its C interface, prefill and decode as single calls."""

from __future__ import annotations

import ctypes
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import llama_cpp
import numpy as np

from twinlens.errors import ExecutorFailed
from twinlens.executors.capabilities import is_as_shipped
from twinlens.executors.in_process.engine import Evidence, Runtime
from twinlens.executors.in_process.precision_check import log_softmax, summed
from twinlens.executors.in_process.torch_work import Linear
from twinlens.executors.llama_cpp.entry import STEP_TOKENS
from twinlens.executors.llama_cpp.gguf import (
    FILE_TYPES,
    cache_said,
    flash_said,
    format_of,
    linears,
    refuse_unknown_type,
    tensors,
    write,
)
from twinlens.record.executor.record import Fact, declared, observed
from twinlens.spec.model.reference import DecoderShape, ModelRef
from twinlens.spec.study import RunSpec
from twinlens.spec.workload.workload import InferenceWorkload

_FILE = "model.gguf"
_LOG: list[str] = []
_LISTEN = llama_cpp.llama_log_callback(lambda level, text, data: _LOG.append(text.decode("utf-8", "replace")))
_CACHES = {"fp32": llama_cpp.GGML_TYPE_F32, "fp16": llama_cpp.GGML_TYPE_F16}


class LlamaDecoder:
    """One batch after another, greedy, of forced length; the cache is emptied before the clock starts."""

    def __init__(self, folder: Path, spec: RunSpec, ref: ModelRef, threads: int) -> None:
        assert isinstance(spec.workload, InferenceWorkload)
        assert isinstance(ref.shape, DecoderShape)
        self._path, self._spec, self._threads = folder / _FILE, spec, threads
        self._vocabulary = ref.shape.vocab
        _LOG.clear()
        llama_cpp.llama_log_set(_LISTEN, ctypes.c_void_p(0))
        llama_cpp.llama_backend_init()
        asked = llama_cpp.llama_model_default_params()
        asked.n_gpu_layers = 0
        self._model: Any = llama_cpp.llama_model_load_from_file(str(self._path).encode(), asked)
        if not self._model:
            raise ExecutorFailed("llama.cpp cannot load the file that was written for it", code="TL302")
        longest = max(spec.workload.input_tokens.max + spec.workload.output_tokens.max, 128)
        self._rows = max(spec.point.batch * longest, longest)
        context = llama_cpp.llama_context_default_params()
        step = int(spec.executor.options.get("max_batched_tokens", STEP_TOKENS))
        context.n_ctx, context.n_batch, context.n_ubatch = self._rows, self._rows, min(step, self._rows)
        context.n_seq_max = spec.point.batch
        context.n_threads = context.n_threads_batch = threads
        context.kv_unified = False
        if not leaves_cache(spec):
            context.type_k = context.type_v = _CACHES[spec.precision.classes("inference")["kv"]]
        if (flash := flash_asked(spec)) is not None:
            context.flash_attn_type = int(flash)  # LLAMA_FLASH_ATTN_TYPE_ENABLED, _DISABLED
        self._context: Any = llama_cpp.llama_init_from_model(self._model, context)
        if not self._context:
            raise ExecutorFailed("llama.cpp cannot make a context of this size", code="TL302")
        self._batch = llama_cpp.llama_batch_init(self._rows, 0, 1)
        self._tokens, self._places = (
            np.ctypeslib.as_array(field, (self._rows,)) for field in (self._batch.token, self._batch.pos)
        )
        self._views: dict[int, np.ndarray] = {}  # of logits by address: to make one takes longer than to read it

    def answer(self, batch: np.ndarray, tokens: int) -> tuple[int, list[int]]:
        now, stamps = time.monotonic_ns, []
        rows, length = batch.shape
        self._empty()
        self._fill(batch, every=False)
        begin_ns = now()
        newest = self._decode()
        stamps.append(now())
        self._arrange(rows, 1, every=False)
        for at in range(length, length + tokens - 1):
            self._tokens[:rows], self._places[:rows] = newest, at
            newest = self._decode()
            stamps.append(now())
        return begin_ns, stamps

    def log_probabilities(self, one: np.ndarray) -> np.ndarray:
        self._empty()
        self._fill(one, every=True)
        self._run()
        return log_softmax(np.stack([self._logits(place) for place in range(one.shape[1])]))

    def evidence(self, batch: np.ndarray) -> Evidence:
        matrices = [(name, kind, size) for name, sides, kind, size in tensors(self._path) if len(sides) == 2]
        held = summed((format_of(kind), size) for name, kind, size in matrices if "token_embd" not in name)
        kinds = sorted({kind for _, kind, _ in matrices})
        system = llama_cpp.llama_print_system_info().decode().strip()
        where = "llama_n_threads of the context"
        cached = cache_said("".join(_LOG))
        threads = int(llama_cpp.llama_n_threads(self._context))
        facts = {
            "software.framework.name": observed("llama.cpp", "llama_cpp"),
            "software.framework.version": observed(version("llama-cpp-python"), "its package"),
            "software.framework.threads": observed(threads, where),
            "software.framework.cpu_capability": observed(system, "llama_print_system_info"),
            "software.runtime.name": observed("llama-cpp-python, engine level", "executors/llama_cpp"),
            "software.runtime.version": observed(version("llama-cpp-python"), "its package"),
            "compiler.name": declared("none: kernels compiled with the package", "llama.cpp"),
            "compiler.version": observed(version("llama-cpp-python"), "its package"),
            "compiler.flags": observed({"file_type": FILE_TYPES[self._spec.point.precision]}, "the file"),
            "serving.attention": _attention(self._spec),
            "serving.max_batched_tokens": observed(
                int(llama_cpp.llama_n_ubatch(self._context)), "llama_n_ubatch of the context"
            ),
            "precision.detail": observed(", ".join(kinds), "tensors of the file"),
        }
        if self._spec.precision.quantised:
            method = f"llama.cpp's {FILE_TYPES[self._spec.point.precision]}, without an importance matrix"
            facts["precision.method"] = declared(method, "llama_model_quantize")
        size = int(llama_cpp.llama_model_size(self._model))
        return Evidence(
            held={"weights": held, "kv": cached},
            ran={},
            missing="llama.cpp has no profile of its kernels",
            facts=facts,
            memory={
                "weights_bytes": (size, "llama_model_size: tensors of the file, scales included"),
                "kv_bytes": (sum(cached.values()), "llama.cpp's log, KV buffers of the context"),
            },
            left=("kv",) if leaves_cache(self._spec) else (),
        )

    def close(self) -> None:
        if self._context:
            llama_cpp.llama_batch_free(self._batch)
            llama_cpp.llama_free(self._context)
            llama_cpp.llama_model_free(self._model)
        self._context = self._model = None

    def _empty(self) -> None:
        llama_cpp.llama_memory_clear(llama_cpp.llama_get_memory(self._context), True)

    def _fill(self, ids: np.ndarray, *, every: bool) -> None:
        """Whole sequences (rows, length); logits of the last position, or of `every` one."""
        rows, length = ids.shape
        self._tokens[: rows * length] = ids.ravel()
        self._places[: rows * length].reshape(rows, length)[:] = np.arange(length)
        self._arrange(rows, length, every=every)

    def _arrange(self, rows: int, length: int, *, every: bool) -> None:
        """Whose each token is, and which gives logits: the same for each token of an answer."""
        batch = self._batch
        batch.n_tokens = rows * length
        for place in range(rows * length):
            row, column = divmod(place, length)
            batch.n_seq_id[place], batch.seq_id[place][0] = 1, row
            batch.logits[place] = every or column == length - 1
        self._last = [row * length + length - 1 for row in range(rows)]

    def _run(self) -> None:
        if code := llama_cpp.llama_decode(self._context, self._batch):
            raise ExecutorFailed(f"llama.cpp could not compute a batch (llama_decode gave {code})", code="TL302")

    def _decode(self) -> list[Any]:
        """The likeliest next token of each sequence."""
        self._run()
        return [self._logits(place).argmax() for place in self._last]

    def _logits(self, place: int) -> np.ndarray:
        pointer = llama_cpp.llama_get_logits_ith(self._context, place)
        address = ctypes.addressof(pointer.contents)
        if address not in self._views:
            self._views[address] = np.ctypeslib.as_array(pointer, (self._vocabulary,))
        return self._views[address]


def leaves_cache(spec: RunSpec) -> bool:
    """Whether the format of the KV cache is llama.cpp's own: fp16, whatever the weights are."""
    return is_as_shipped(spec) and spec.executor.options.get("kv_format", "auto") == "auto"


def flash_asked(spec: RunSpec) -> bool | None:
    """Flash attention as the run wants it; None: llama.cpp decides. At fp32 it is off, for it rounds to fp16 inside."""
    word = spec.executor.options.get("flash_attention", "auto")
    if word != "auto":
        return bool(word == "on")
    return False if spec.point.precision == "fp32" and not is_as_shipped(spec) else None


def _attention(spec: RunSpec) -> Fact:
    asked = flash_asked(spec)
    if asked is None:
        flash = flash_said("".join(_LOG))
        return observed(flash, "its log") if flash else declared("flash attention: auto", "its default parameters")
    words = "flash attention enabled" if asked else "not fused: flash attention rounds to fp16"
    return declared(words, "llama_context_params.flash_attn_type")


def _make(spec: RunSpec, weights: Path, folder: Path) -> None:
    refuse_unknown_type(spec.model.config, spec.model.name)
    write(weights, folder / _FILE, spec.point.precision)


def _made_by(spec: RunSpec) -> str:
    versions = [f"{name} {version(name)}" for name in ("llama-cpp-python", "gguf")]
    return f"1 {versions} {FILE_TYPES[spec.point.precision]}"


def _linears(folder: Path) -> list[Linear]:
    return linears(folder / _FILE)


RUNTIME = Runtime("llama-cpp-engine", _made_by, _make, _linears, LlamaDecoder)
