"""`python tests/fuzz NAME [--seconds N] [--seed S] [--count C]`: one of the fuzzers, by hand."""

from __future__ import annotations

import argparse

from checks import CHECKS
from frame import fuzz


def main() -> None:
    """Print how many cases held; a traceback and a seed where one did not."""
    parser = argparse.ArgumentParser(prog="python tests/fuzz", description=__doc__)
    parser.add_argument("name", choices=sorted(CHECKS))
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=10**12)
    asked = parser.parse_args()
    done = fuzz(CHECKS[asked.name][0], seconds=asked.seconds, count=asked.count, seed=asked.seed)
    print(f"{done} cases held, seeds {asked.seed} to {asked.seed + done - 1}")


if __name__ == "__main__":
    main()
