"""The capabilities of the embedded executor; torch is imported when one is made."""

from __future__ import annotations

from twinlens.executors.capabilities import ALL_FAMILIES, Capabilities, Executor, named
from twinlens.executors.torch.options import LEAST_GPU, METHODS, OPTIONS, PRECISIONS_HERE
from twinlens.spec.model.any_model import any_model
from twinlens.spec.study import RunSpec

_trainer = named("twinlens.executors.torch.train:TorchTrainer")
_server = named("twinlens.executors.torch.infer:TorchServer")


def _preload(spec: RunSpec) -> None:
    """Import torch and the model's own classes: a model without memory needs them all."""
    from twinlens.executors.torch.model.build import parameter_count

    parameter_count(any_model(spec.workload.model))
    _trainer() if spec.lens == "training" else _server()


EXECUTOR = Executor(
    Capabilities(
        families=ALL_FAMILIES,
        precisions=PRECISIONS_HERE,
        least_gpu=LEAST_GPU,
        settings=("device", "threads"),
        options=OPTIONS,
        computes_with="torch",
        packages=("torch",),
        install="pip install 'twinlens[torch]'",
        is_sized_by_theory=True,
        quantises=True,
        compares_with_fp32=True,
        methods=METHODS,
        serves_adapters=METHODS["lora"],
        saves_weights=True,
        saves_state=True,
        takes_any_type=True,
    ),
    trainer=_trainer,
    server=_server,
    probe=named("twinlens.executors.torch.evidence.work:probe_device"),
    preload=_preload,
    profile=named("twinlens.executors.torch.kernel_time:profiled"),
)
