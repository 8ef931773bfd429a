"""The capabilities of the ONNX Runtime executor; its packages are imported when one is made."""

from __future__ import annotations

from typing import TYPE_CHECKING

from twinlens.executors.capabilities import Capabilities, Executor

if TYPE_CHECKING:
    from twinlens.executors.in_process.engine import Runtime
    from twinlens.executors.protocol import Server
    from twinlens.spec.study import RunSpec


def _runtime(spec: RunSpec) -> Runtime:
    from twinlens.executors.onnxruntime.decoder import RUNTIME

    return RUNTIME


def _server() -> Server:
    from twinlens.executors.in_process.engine_server import EngineServer

    return EngineServer("onnxruntime", _runtime)


def _preload(spec: RunSpec) -> None:
    _runtime(spec)
    _server()


EXECUTOR = Executor(
    Capabilities(
        families=("decoder",),
        precisions=("fp32", "int8-dynamic", "int4-dynamic"),
        why_not={"bf16": "ONNX Runtime has no bf16 kernels for this model on a processor"},
        settings=("threads",),
        computes_with="onnxruntime",
        packages=("onnxruntime-genai",),
        install="pip install 'twinlens[onnxruntime]'",
        is_sized_by_theory=True,
        quantises=True,
        compares_with_fp32=True,
    ),
    server=_server,
    preload=_preload,
)
