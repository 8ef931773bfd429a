"""GPUs for ranks: one each, counted before any rank is started. Needs torch where a GPU may be meant."""

from __future__ import annotations

from twinlens.executors.refuse import refuse_shared_gpu
from twinlens.spec.asked_device import AskedDevice

USUAL_ON_PROCESSOR = 2


def usual_ranks(asked: AskedDevice) -> int:
    """One for each GPU that torch sees; two on a processor, and on a single GPU."""
    return max(USUAL_ON_PROCESSOR, _gpus(asked))


def refuse_too_few_gpus(asked: AskedDevice, ranks: int) -> None:
    """Raises BadInput (TL208) where ranks would have to share a GPU or one GPU is named for several, and for a device
    that is not here."""
    refuse_shared_gpu(asked, ranks, 0)  # what is named needs no count
    refuse_shared_gpu(asked, ranks, _gpus(asked))


def on_processor(asked: AskedDevice) -> bool:
    """Whether ranks of this device exchange through gloo."""
    return _gpus(asked) == 0


def _gpus(asked: AskedDevice) -> int:
    """0 where the processor is meant."""
    if asked.kind == "cpu":
        return 0
    import torch

    from twinlens.executors.torch.device import choose_device

    return int(torch.cuda.device_count()) if choose_device(asked).type == "cuda" else 0
