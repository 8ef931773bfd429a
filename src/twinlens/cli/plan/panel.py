"""Heads of the options in `twinlens plan VERB --help`: one for each name, unless the option names another."""

from __future__ import annotations

from typing import Any

from twinlens.cli.help import Verb

PANELS = {
    "Model": (
        "model", "models", "precision", "kv", "beside", "training-model", "training-precision", "licence", "scores",
    ),
    "Devices": (
        "device", "devices", "probe", "runtime", "engine", "driver", "link", "tensor", "groups", "pipeline", "expert",
        "zero", "among", "most-devices", "ecc", "datacentre", "on-premise", "compliance", "mtbf", "device-mtbf",
        "spare",
    ),
    "Load": (
        "users", "context", "prompt", "answer", "input", "rate", "input-tokens", "output-tokens", "max-sequences",
        "peak", "uses", "days", "requests", "retries", "hits", "busy", "hours", "duty", "throughput", "output-weight",
        "training", "inference",
    ),
    "Targets": (
        "ttft", "tpot", "of", "speed", "fast", "slow", "most-tpot", "least-quality", "most-cost", "deadline",
    ),
    "Training": (
        "train", "optimizer", "layout", "batch", "microbatch", "sequences", "length", "recompute", "loss",
        "rank", "tokens", "within", "effective", "mfu", "epochs", "save", "restart",
    ),
    "Knowledge": (
        "corpus", "changes", "examples", "style", "own-weights", "retrieved", "example-tokens", "shots",
    ),
    "Money": (
        "way", "rent", "reserved", "buy", "api", "prices", "price", "budget", "life", "residual", "fixed",
        "rent-falls", "resale-falls", "warranty", "discount", "delivery", "finance", "finance-months", "months",
        "revenue", "training-hours",
    ),
    "Power": (
        "power", "idle-power", "host-watts", "host", "pue", "energy", "carbon", "carbon-source", "volts", "phases",
        "rise",
    ),
    "Known from elsewhere": ("like", "constants", "catalogue", "table"),
    "Output": ("why", "all", "output", "json", "help"),
}  # fmt: skip
_OTHER = "Other"
"""The head of an option that PANELS lacks, which a test finds."""
_PANEL_OF = {name: title for title, names in PANELS.items() for name in names}


class PlanVerb(Verb):
    """A verb of planning. Its options stand under the heads of PANELS, in their order."""

    panels = (*PANELS, _OTHER)

    def panel_of(self, option: Any) -> str:
        long = next(name for name in option.opts if name.startswith("--"))
        return option.rich_help_panel or _PANEL_OF.get(long.removeprefix("--"), _OTHER)
