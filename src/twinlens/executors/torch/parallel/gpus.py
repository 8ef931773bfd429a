"""GPUs for ranks: one each, counted before any rank is started. Needs torch where a GPU may be meant."""

from __future__ import annotations

from twinlens.errors import BadInput
from twinlens.spec.asked_device import AskedDevice

USUAL_ON_PROCESSOR = 2


def usual_ranks(asked: AskedDevice) -> int:
    """One for each GPU that torch sees; two on a processor, and on a single GPU."""
    return max(USUAL_ON_PROCESSOR, _gpus(asked))


def refuse_too_few_gpus(asked: AskedDevice, ranks: int) -> None:
    """Raises BadInput (TL208) where ranks would have to share a GPU or one GPU is named for several, and for a device
    that is not here."""
    if ranks > 1 and asked.index is not None:
        raise BadInput(
            f"{ranks} ranks need a GPU each, and executor.device names one (cuda:{asked.index}); set it to cuda, and "
            "CUDA_VISIBLE_DEVICES to those that they may use",
            code="TL208",
        )
    if 0 < (gpus := _gpus(asked)) < ranks:
        seen = "one, which has no link to another" if gpus == 1 else gpus
        raise BadInput(
            f"{ranks} ranks need a GPU each, and torch sees {seen}; set fewer ranks, or the device to cpu", code="TL208"
        )


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
