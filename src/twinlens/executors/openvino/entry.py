"""The capabilities of the OpenVINO executor; its packages are imported when a run is opened."""

from __future__ import annotations

from typing import TYPE_CHECKING

from twinlens.executors.capabilities import Capabilities, Executor

if TYPE_CHECKING:
    from twinlens.executors.in_process.engine import Runtime
    from twinlens.executors.protocol import Server
    from twinlens.spec.study import RunSpec


def _runtime(spec: RunSpec) -> Runtime:
    import nncf  # noqa: F401  # the export needs it, in a process of its own

    from twinlens.executors.openvino.decoder import RUNTIME

    return RUNTIME


def _server() -> Server:
    from twinlens.executors.in_process.engine_server import EngineServer

    return EngineServer("openvino", _runtime)


def _preload(spec: RunSpec) -> None:
    import openvino  # noqa: F401

    _server()


EXECUTOR = Executor(
    Capabilities(
        families=("decoder",),
        precisions=("fp32", "bf16", "int8-weight", "int4-weight"),
        settings=("threads",),
        computes_with="openvino",
        packages=("openvino",),
        install="pip install 'twinlens[openvino]'",
        is_sized_by_theory=True,
        quantises=True,
        compares_with_fp32=True,
        # Its own defaults compute fp32 models in bf16, keep the KV cache in 8 bits and may quantise activations.
        unasked=(
            "INFERENCE_PRECISION_HINT, KV_CACHE_PRECISION, DYNAMIC_QUANTIZATION_GROUP_SIZE as the precision says",
        ),
    ),
    server=_server,
    preload=_preload,
)
