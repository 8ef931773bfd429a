"""`python -m benchmarks [NAME …] [--save] [-- OPTIONS]`: run the benchmarks, print their tables."""

from __future__ import annotations

import sys
from importlib import import_module

from benchmarks.finding import print_findings, save

NAMES = ("startup", "million", "first_request", "harness_cost", "watch_cost", "decode", "training", "paired", "peers",
         "theory", "choose", "runtimes", "packs_site", "gateway")  # fmt: skip
_USAGE = f"usage: python -m benchmarks [{' | '.join(NAMES)}] [--save] [options of the one named; --help]"


def main(words: list[str]) -> int:
    """Run what is named, or everything. Returns 1 when a target was missed."""
    saving = "--save" in words
    words = [word for word in words if word != "--save"]
    if words and words[0] in NAMES:
        return run(words[0], words[1:], saving)
    if words:
        print(_USAGE)
        return 0 if words[0] in ("-h", "--help") else 2
    return max(run(name, [], saving) for name in NAMES)


def run(name: str, options: list[str], saving: bool) -> int:
    """One benchmark, its table, and its file where asked."""
    module = import_module(f"benchmarks.{name}")
    findings, notes = module.run(module.arguments().parse_args(options))
    print_findings(name, findings, notes)
    if saving:
        print(f"written: {save(name, findings, notes)}\n")
        if hasattr(module, "write_page"):
            print(f"written: {module.write_page(findings, notes)}\n")
    return int(any(found.verdict == "missed" for found in findings))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
