"""One rank of DeepSpeed: the program that torchrun starts."""

from __future__ import annotations

import sys
from typing import Any

from twinlens.executors.protocol import Say
from twinlens.executors.torch.parallel.worker import main


def _rank(say: Say) -> Any:
    from twinlens.executors.torch.deepspeed.engine import open_zero
    from twinlens.executors.torch.parallel.rank import Rank

    return Rank(say, open_zero)


if __name__ == "__main__":
    sys.exit(main(_rank))
