"""The capabilities of exchanges between ranks; nothing heavy is imported before a run is opened."""

from __future__ import annotations

from twinlens.errors import BadInput
from twinlens.executors.capabilities import Capabilities, Degrees, Executor, named
from twinlens.executors.torch.parallel.options import ELEMENT_BYTES, EXCHANGE_OPTIONS, ExchangeOptions, refuse_exchange
from twinlens.spec.study import RunSpec
from twinlens.spec.workload.workload import CollectiveWorkload


def degrees_of(spec: RunSpec) -> Degrees:
    """Raises BadInput: TL202 for a buffer without a whole share for each rank, TL243 for what the backend lacks."""
    assert isinstance(spec.workload, CollectiveWorkload)
    asked, size = ExchangeOptions.of(spec.executor.options), spec.workload.size_bytes
    share = ELEMENT_BYTES * asked.ranks
    if size % share:
        near = max(share, size // share * share)
        raise BadInput(
            f"workload.size_bytes = {size} gives {asked.ranks} ranks no whole share of fp32 elements each; take a "
            f"multiple of {share}, such as {near}",
            code="TL202",
        )
    if spec.device.kind == "cpu":
        refuse_exchange("gloo", spec.workload.exchange)
    return Degrees(data=asked.ranks)


EXECUTOR = Executor(
    Capabilities(
        families=(),
        arrivals=(),
        tasks=(),
        precisions=("fp32",),
        why_not=dict.fromkeys(("bf16", "fp16"), "buffers are of fp32, and a link carries bytes"),
        settings=("device", "threads"),
        options=EXCHANGE_OPTIONS,
        computes_with="torch",
        packages=("torch",),
    ),
    exchanger=named("twinlens.executors.torch.parallel.exchanger:TorchExchanger"),
    degrees=degrees_of,
)
