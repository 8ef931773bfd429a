"""`python -m twinlens.cli.table` writes the table of verbs (`pages/verbs.json`) from their questions."""

from __future__ import annotations

import inspect
import json
from importlib import import_module
from pathlib import Path
from typing import Any, get_origin

import twinlens.pages
from twinlens.api.question import Option, Question, option_of, plain_type, said

_TOP = (
    ("demo", "Measure", "measuring", ""),
    ("measure", "Measure", "measuring", "chat --at rate_per_s=2,4 --set protocol.repeats=3"),
    ("check", "Measure", "measuring", "chat --at rate_per_s=2,4"),
    ("new", "Measure", "measuring", "chat -o my.toml"),
    ("probe", "Measure", "measuring", "--json > machine.json"),
    ("show", "Read", "reading", "runs/STUDY --all"),
    ("diagnose", "Read", "reading", "runs/STUDY"),
    ("compare", "Read", "reading", "runs/BEFORE runs/AFTER --fail-if 'TTFT p99 +5%'"),
    ("report", "Read", "reading", "runs -o report.html"),
    ("claim", "Read", "judging", "'70B Q4 does 45 tok/s on 1.79 TB/s'"),
    ("evidence", "Read", "judging", "runs/STUDY -o pack.zip"),
    ("plan", "Plan", "", ""),
    ("explain", "Look up", "looking_up", "ttft"),
    ("list", "Look up", "looking_up", "examples"),
)
"""Verbs as `--help` lists them: name, head, file in `cli/verb`, and words of the example."""
_PLAN = ("fit", "cost", "choose", "capacity", "roi", "calibrate", "check", "checkpoint", "method", "model", "quotes")
HEADS = {
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
"""Heads of options of planning, by their names, unless an option names another."""
_HEAD_OF = {name: head for head, names in HEADS.items() for name in names}


def table() -> dict[str, dict[str, Any]]:
    """Every verb by its name, as `pages/verbs.json` has it."""
    found: dict[str, dict[str, Any]] = {}
    for name, head, file, example in _TOP:
        if name == "plan":
            found[name] = {"summary": "What fits, how fast it would be, and what it costs.", "head": head}
            found |= {f"plan {each}": _plan_verb(each) for each in _PLAN}
            continue
        question: type[Question] = getattr(import_module(f"twinlens.cli.verb.{file}"), name.capitalize())
        options = [_row(question, field, option_of(question, field)) for field in question.model_fields]
        found[name] = {"summary": inspect.getdoc(question), "head": head, "example": example,
                       "run": f"twinlens.cli.verb.{file}", "options": _ordered(options)}  # fmt: skip
    return found


def _plan_verb(name: str) -> dict[str, Any]:
    module = import_module(f"twinlens.api.plan.{name}")
    options = [_row(question, field, told) for field, (question, told) in module.VERB.fields().items()]
    options += _telling(name, module.VERB)
    for each in options:
        long = next((one for one in each.get("names", ()) if one.startswith("--")), "").removeprefix("--")
        each["head"] = each.get("head") or _HEAD_OF.get(long, "Output" if each.get("hidden") else "Other")
    options.sort(key=lambda each: [*HEADS, "Other"].index(each["head"]))
    summary = (inspect.getdoc(getattr(module, name)) or "").partition("\n\n")[0].replace("\n", " ")
    return {"summary": summary, "head": "", "example": module.VERB.example, "run": "twinlens.cli.plan",
            "options": options}  # fmt: skip


def _telling(name: str, verb: Any) -> list[dict[str, Any]]:
    """Options that say how an answer of planning is told."""
    names = ["-o"] if "output" in verb.fields() else ["-o", "--output"]
    page: dict[str, Any] = {"field": "page", "names": names, "metavar": "FILE",
                            "help": "Write the plan as an HTML page.", "head": "Output"}  # fmt: skip
    if name == "calibrate":
        page = {**page, "field": "constants", "help": "Write the constants here."}
    why = [{"field": "why", "names": list(verb.why_names), "help": verb.why, "flag": True}] if verb.why else []
    return [
        *why,
        page,
        {"field": "json", "names": ["--json"], "help": "Machine-readable output on stdout.", "flag": True},
    ]


def _row(question: type[Question], field: str, told: Option) -> dict[str, Any]:
    kind, default = plain_type(question, field), question.model_fields[field].default
    row: dict[str, Any] = {"field": field, "help": told.words}
    if told.is_argument:
        row |= {"argument": True, "metavar": told.kind.metavar}
    else:
        row |= {"names": list(told.names or (f"--{said(field)}",))}
    if kind is bool:
        row |= {"flag": True}
    elif not told.is_argument:
        row |= {"metavar": told.kind.metavar}
        if isinstance(default, str | int | float | Path) and default is not None:
            row["help"] = f"{told.words}  [default: {default}]".strip()
    if get_origin(kind) is tuple and told.kind.read is None:
        row |= {"many": True}
    return row | ({"head": told.head} if told.head else {})


def _ordered(options: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(options, key=lambda each: not each.get("argument"))


def text() -> str:
    """The table as the text of its file, an option a line."""
    rows = table()
    for row in rows.values():
        row["options"] = row.get("options", [])
    parts = []
    for name, row in rows.items():
        facts = {key: value for key, value in row.items() if key != "options"}
        options = ",\n".join(f"   {json.dumps(each, ensure_ascii=False)}" for each in row["options"])
        head = json.dumps(facts, ensure_ascii=False)[:-1]
        parts.append(
            f' {json.dumps(name)}: {head}, "options": [\n{options}\n ]}}'
            if options
            else f" {json.dumps(name)}: {head}}}"
        )
    return "{\n" + ",\n".join(parts) + "\n}\n"


if __name__ == "__main__":
    Path(twinlens.pages.__file__).with_name("verbs.json").write_text(text(), encoding="utf-8")
