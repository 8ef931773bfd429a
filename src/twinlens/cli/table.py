"""`python -m twinlens.cli.table` writes what is made of the questions: `pages/verbs.json` and `api/words.pyi`."""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from typing import Any, get_origin

import twinlens as tl
import twinlens.api
import twinlens.pages
from twinlens.api.plan.verbs import functions
from twinlens.api.question import Option, Question, plain_type, said
from twinlens.api.questions import VERBS

PLANS = functions()
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
FUNCTIONS: tuple[Any, ...] = (tl.burnin, tl.check, tl.claim, tl.compare, tl.demo, tl.evidence, tl.history, tl.ledger,
                              tl.list, tl.measure, tl.new, tl.probe, tl.show, tl.simulate, tl.site, tl.tune,
                              *PLANS)  # fmt: skip
"""Every function whose keywords are those of a question."""
_WORDS_HEAD = '''"""Keywords of the verbs, made from their questions by `make reference`."""

from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, TypedDict
'''
_HEAD_OF = {name: head for head, names in HEADS.items() for name in names}


def table() -> dict[str, dict[str, Any]]:
    """Every verb by its name, as `pages/verbs.json` has it."""
    found: dict[str, dict[str, Any]] = {}
    for verb in VERBS:
        if verb.head == "Look up" and "plan" not in found:
            found["plan"] = {"summary": "What fits, how fast it would be, and what it costs.", "head": "Plan"}
            found |= {f"plan {function.__name__}": _plan_verb(function) for function in PLANS}
        options = [_row(question, field, told) for field, (question, told) in verb.fields().items()]
        found[verb.name] = {"summary": inspect.getdoc(verb.questions[0]), "head": verb.head, "example": verb.example,
                            "run": verb.run, "options": options}  # fmt: skip
    return found


def _plan_verb(function: Any) -> dict[str, Any]:
    verb = function.verb
    options = [_row(question, field, told) for field, (question, told) in verb.fields().items()]
    options += _telling(function.__name__, verb)
    for each in options:
        long = next((one for one in each.get("names", ()) if one.startswith("--")), "").removeprefix("--")
        each["head"] = each.get("head") or _HEAD_OF.get(long, "Output" if each.get("hidden") else "Other")
    options.sort(key=lambda each: [*HEADS, "Other"].index(each["head"]))
    summary = (inspect.getdoc(function) or "").partition("\n\n")[0].replace("\n", " ")
    return {"summary": summary, "head": "", "example": verb.example, "run": "twinlens.cli.verb.plan:run",
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
        if isinstance(default, str | int | float | Path) and default != "":
            row["help"] = f"{told.words}  [default: {default}]".strip()
    if get_origin(kind) is tuple and told.kind.read is None:
        row |= {"many": True}
    return row | ({"head": told.head} if told.head else {})


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


def words() -> str:
    """The keywords of every verb with their types, for checkers and editors, as the text of `api/words.pyi`."""
    parts = [_WORDS_HEAD]
    for function in FUNCTIONS:
        fields = "".join(f"    {each.name}: {each.annotation} | None\n" for each in function.words)
        parts.append(f"class {words_name(function)}(TypedDict, total=False):\n{fields}")
    return "\n".join(parts)


def words_name(function: Any) -> str:
    """The name of the keywords of a verb: `ShowWords`, `PlanFitWords`."""
    return f"{'Plan' if function.verb.name.startswith('plan ') else ''}{function.__name__.title()}Words"


if __name__ == "__main__":
    Path(twinlens.pages.__file__).with_name("verbs.json").write_text(text(), encoding="utf-8")
    Path(twinlens.api.__file__).with_name("words.pyi").write_text(words(), encoding="utf-8")
