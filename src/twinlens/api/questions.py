"""The questions of the verbs at the top: their options, written once for the command line, Python and `explain`.

This file loads quickly: what runs a verb is named by its `Verb`, and imported when it is asked.
"""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, ClassVar

from twinlens.api.judging.claim_asked import CLAIM
from twinlens.api.measuring.burnin_asked import Burnin
from twinlens.api.number import factor_of, money_of, ranks_of, whole_of
from twinlens.api.page_asked import Browse, Gateway, Report, Runs, Site
from twinlens.api.question import Kind, Question, Verb, argument, option, telling
from twinlens.api.shared_options import (
    COUNT,
    FILE,
    FLAG,
    FOLDER,
    NAME,
    PACK,
    Json,
    Out,
    Page,
    Quiet,
)

Set = Annotated[tuple[str, ...], option("Change a field of the spec.", Kind("PATH=VALUE"))]
At = Annotated[
    tuple[str, ...],
    option("How hard: rate_per_s=1,2,4, concurrency=1,8 …; rate_per_s=search: the highest within an SLO.",
           Kind("FIELD=V,V")),
]  # fmt: skip
Url = Annotated[str, option("An OpenAI-compatible server that is up; no file is needed.", Kind("URL"))]
Model = Annotated[str, option("The model; with --url, where it serves several.", NAME)]
KeyEnv = Annotated[str, option("Holds the key, else OPENAI_API_KEY.", Kind("VARIABLE"))]
Fresh = Annotated[bool, option("Start over instead of resuming an unfinished study.", FLAG)]
Sides = Annotated[
    tuple[Any, ...], argument("Run or study folders, the baseline first; FOLDER@batch=4: a point.", "RUN")
]
_GATE = (
    "Exit 1 if a point is not in that state (valid if none is named), misses its target, its SLO is missed or "
    "undecided, or its quality check fails."
)


class Demo(Question):
    """Train and serve a small model here, and report both lenses."""

    out: Out = Path("runs")
    json_: Json = False
    quiet: Quiet = False
    fresh: Fresh = False


class Measure(Question):
    """Measure a spec, an example, or a server that is up (--url). An interrupted study is resumed."""

    spec: Annotated[str, argument("A spec file, a shipped example, or a run folder.", "SPEC")] | None = None
    url: Url | None = None
    model: Model | None = None
    key_env: KeyEnv | None = None
    at: At = ()
    set_: Set = ()
    quick: Annotated[bool, option("A minute of load, for a look: one short run a point.", FLAG)] = False
    out: Out = Path("runs")
    json_: Json = False
    quiet: Quiet = False
    fresh: Fresh = False
    gate: Annotated[str, telling(_GATE, Kind("[valid|provisional]"))] | None = None
    on: Annotated[str, option("Generate the load, or train, on a Ray cluster.", Kind("ray://HOST:PORT"))] | None = None


class Tune(Question):
    """Tune a spec within a declared bound, and prove the winner."""

    spec: Annotated[str, argument("A spec with a table [tune], or a shipped example.", "SPEC")]
    set_: Set = ()
    out: Out = Path("runs")
    all_: Annotated[bool, telling("Every trial, and what each setting is worth.", FLAG)] = False
    json_: Json = False
    quiet: Quiet = False
    fresh: Fresh = False
    file: Page | None = None


class Check(Question):
    """Check a spec and predict it from theory; touches nothing."""

    spec: Annotated[Path, argument("A spec file, or a shipped example.", "SPEC")]
    set_: Set = ()
    at: At = ()
    all_: Annotated[bool, telling("The whole spec, and every quantity.", FLAG)] = False
    json_: Json = False


class New(Question):
    """Write a spec to edit: an example, a run again, or a server."""

    what: Annotated[str, argument("Its name: `twinlens list examples`.", "EXAMPLE")] | None = None
    source: Annotated[Path, telling("What this run or study was asked for.", Kind("RUN"), "--from")] | None = None
    url: Url | None = None
    model: Model | None = None
    key_env: KeyEnv | None = None
    at: At = ()
    set_: Set = ()
    file: Annotated[Path, telling("Where the spec is written.", Kind("FILE.toml"), "-o", "--output")] | None = None


class Probe(Question):
    """Who is this machine, with measured ceilings per precision."""

    device: Annotated[str, option("auto, cpu, cuda or cuda:N.", NAME)] = "auto"
    collectives: Annotated[bool, option("Time exchanges between processes too, a minute.", FLAG)] = False
    ranks: Annotated[int, option("Processes of --collectives; one per GPU, or 2.", Kind("COUNT", ranks_of))] | None = (
        None
    )
    json_: Json = False
    quiet: Quiet = False


class _Virtual(Question):
    spec: Annotated[Any, argument("A spec: a file, an example, a run folder.", "SPEC")]
    like: Annotated[
        tuple[Any, ...], option("Learn the law from measured runs; FOLDER@rate_per_s=4: a point.", Kind("RUN"))
    ] = ()
    law: Annotated[Path, option("Take the law from a table: fixed_s = 0.012 …", Kind("FILE.toml"))] | None = None
    device: Annotated[str, option("Model the law by theory: H100, a name that list devices shows.", NAME)] | None = None
    devices: Annotated[int, option("Of --device, as one tensor group; all that train.", Kind("COUNT", whole_of))] = 1
    set_: Annotated[
        tuple[str, ...],
        option("Of the spec, a rule (max_num_seqs=16), device=H200, bandwidth*2, prompt=512, precision=fp8; of "
               "training steps=10000, ranks=64, mtbf=8h, save_every=100.", Kind("NAME=VALUE")),
    ] = ()  # fmt: skip
    replicas: Annotated[
        str, option("Behind one router: 4, several 2,4,8; search: the fewest that keep the SLO.", Kind("COUNTS"))
    ] | None = None  # fmt: skip
    routing: Annotated[
        str, option("round-robin (default), random, two-choices, shortest-queue, least-tokens, prefix; several.",
                    Kind("POLICIES"))
    ] | None = None  # fmt: skip
    signal_age: Annotated[str, option("The router looks at the queues that often: 100ms.", Kind("TIME"))] | None = None


class Simulate(_Virtual):
    """A spec in virtual time: other rates, policies, rules and machines, by a law learnt, quoted or modelled."""

    lens: ClassVar = "a simulation that ends"
    instead: ClassVar = "it goes with --serve"
    at: At = ()
    with_: Annotated[str, option("A spec of training, in what serving leaves idle.", Kind("SPEC"))] | None = None
    day: Annotated[
        str, option("The rate over a day, in equal periods: 0.2,1,0.6 of the spec's.", Kind("SHARES"))
    ] | None = None  # fmt: skip
    batching: Annotated[
        str, option("Policies on the same arrivals: continuous,static(32),dynamic(32,50ms); engine:static(32).",
                    Kind("POLICIES"))
    ] | None = None  # fmt: skip
    pools: Annotated[
        str, option("Replicas for prompts and replicas for answers, apart: 2+4; several.", Kind("PREFILL+DECODE"))
    ] | None = None  # fmt: skip
    link: Annotated[str, option("Carries KV cache between --pools: 25GB/s.", Kind("RATE"))] | None = None
    failing: Annotated[str, option("A replica dies at a time and is back, cold, after one: 20s:30s.",
                                   Kind("AT:DOWN"))] | None = None  # fmt: skip
    slow: Annotated[float, option("A replica takes so many times as long.", Kind("FACTOR", factor_of))] | None = None
    price: Annotated[Decimal, option("Of a replica-hour: 2.50.", Kind("DOLLARS", money_of))] | None = None
    seeds: Annotated[int, option("Simulations of each point.", Kind("COUNT", whole_of))] = 10
    dry: Annotated[bool, option("Keep no rows: write no run folders.", FLAG)] = False
    out: Out = Path("runs")
    all_: Annotated[bool, telling("Every figure.", FLAG)] = False
    json_: Json = False
    file: Page | None = None


class SimulateServed(_Virtual):
    """A server of the OpenAI API on this machine that answers at the simulated pace, until Ctrl-C."""

    lens: ClassVar = "a simulated server"
    instead: ClassVar = "leave --serve out"
    serve: Annotated[bool, telling("Answer the OpenAI API at the simulated pace, until Ctrl-C.", FLAG)] = False
    host: Annotated[str, telling("Of this machine alone.", Kind("ADDRESS"))] = "127.0.0.1"
    port: Annotated[int, telling("0: a free one.", Kind("PORT"))] = 8000
    speed: Annotated[float, telling("Simulated seconds in one of the clock.", Kind("FACTOR"))] = 1.0
    fail: Annotated[
        str, telling("Inject failures: 429, 500, 503, cut, stall, slow, as in 429=0.05:2,cut=0.01.", Kind("KIND=SHARE"))
    ] = ""
    fail_seed: Annotated[int, telling("Which requests fail.", Kind("SEED"))] = 0
    answer_tokens: (
        Annotated[float, telling("Mean length at which answers end; else at their limit.", Kind("TOKENS"))] | None
    ) = None
    tokenizer: Annotated[str, telling("Counts prompts by its tokenizer.json.", FOLDER)] | None = None


class Show(Question):
    """A run on one screen, or the points of a study in tables. With --as vllm: as that tool counts."""

    runs: Runs
    json_: Json = False
    tool: Annotated[str, telling("In the figures of another tool.", Kind("TOOL"), "--as")] | None = None
    whole: Annotated[bool, option("Every metric, and how each was computed.", FLAG, "--all")] = False
    csv: Annotated[bool, telling("Every metric of every run, a line each.", FLAG)] = False
    markdown: Annotated[bool, telling("For an issue or a pull request.", FLAG)] = False
    parquet: Annotated[Path, telling("Write the steps or requests to a file.", FILE)] | None = None


class Diagnose(Question):
    """What binds a run: its time by part, four counters, and what to try."""

    runs: Runs = ()
    json_: Json = False
    all_: Annotated[bool, telling("Every finding, with all that decided.", FLAG)] = False
    self_test: Annotated[bool, telling("Saturate one resource after another here; RUN may name cases.", FLAG)] = False
    try_: Annotated[bool, telling("Measure the change that would prove its verdict wrong.", FLAG)] = False
    file: Page | None = None
    ceilings: Annotated[Path, option("Of the server's machine, from `probe --json`.", Kind("PROBE.json"))] | None = None
    instrument: Annotated[str, telling("Its work once more, watched; in no figure.", Kind("profiler"))] | None = None


All = Annotated[bool, telling("Every finding and every figure.", FLAG)]
Markdown = Annotated[bool, telling("A table for a pull request.", FLAG)]
Metric = Annotated[str, option("This one only: 'TTFT p99', 'tokens/s' …", NAME)]


class _Sides(Question):
    runs: Sides
    json_: Json = False
    file: Page | None = None


class Compare(_Sides):
    """Whether runs may be compared, how far apart they are, and why."""

    lens: ClassVar = "a comparison of two"
    instead: ClassVar = "it goes with --ledger, --table or --history"
    all_: All = False
    markdown: Markdown = False
    fail_if: Annotated[tuple[str, ...], telling("Exit 1 beyond it: 'TTFT p99 +5%'.", Kind("LIMIT"))] = ()
    noise: Annotated[Path, option("One spec at three times: the noise floor.", FOLDER)] | None = None
    metric: Metric | None = None


class Ledger(_Sides):
    """A baseline and steps, with what each one gave."""

    lens: ClassVar = "a ledger"
    instead: ClassVar = "leave --ledger out"
    ledger: Annotated[bool, telling("A baseline and steps, with what each one gave.", FLAG)] = False
    price_per_hour: (
        Annotated[float, option("Of the machine, for the cost column of a ledger.", Kind("PRICE"))] | None
    ) = None
    per_month: Annotated[float, option("Inferences a month, for what a step repays.", COUNT)] | None = None


class Table(_Sides):
    """Both lenses side by side, an engine beside servers, or a server's switches."""

    lens: ClassVar = "a table"
    instead: ClassVar = "leave --table out"
    all_: All = False
    table: Annotated[
        str, telling("lenses: both side by side; runtimes: the kernels' share; switches: each.", Kind("TABLE"))
    ] = ""


class History(_Sides):
    """A metric over time: when it changed, and what changed then."""

    lens: ClassVar = "a history"
    instead: ClassVar = "leave --history out"
    all_: All = False
    markdown: Markdown = False
    metric: Metric | None = None
    history: Annotated[bool, telling("The metric over time: when it changed, and what changed then.", FLAG)] = False


class Evidence(Question):
    """Runs in a file that others can check (-o, --verify); which runs answer (--for)."""

    runs: Runs = ()
    file: Annotated[Path, telling("Write the pack.", PACK, "-o", "--output")] | None = None
    name: Annotated[str, option("Who measured.", NAME)] | None = None
    organisation: Annotated[str, option("Who submits the pack.", NAME)] | None = None
    contact: Annotated[str, option("Whom to ask about it.", Kind("ADDRESS"))] | None = None
    role: Annotated[str, option("buyer, vendor, 'third party'.", Kind("ROLE"))] | None = None
    key: Annotated[Path, option("Sign with this key of ssh.", FILE)] | None = None
    verify: Annotated[Path, telling("Check a pack.", PACK)] | None = None
    question: (
        Annotated[str, telling("Which runs answer: precision=bf16,rate_per_s=8,slo.ttft_s=0.5", Kind("FIELDS"),
                               "--for")]
        | None
    ) = None  # fmt: skip
    signers: Annotated[Path, telling("Whose keys are whose: ssh's allowed_signers.", FILE)] | None = None
    json_: Json = False


class Explain(Question):
    """What a metric, label, error or term means. Without a word: the names of all pages."""

    word: Annotated[str, argument("A metric, finding, error, field or option.", "WORD")] | None = None


class List(Question):
    """What is available here: models, examples, metrics, runs …"""

    kind: Annotated[str, argument("models, devices, executors, metrics, …", "KIND")] = "kinds"
    name: Annotated[str, argument("A device, a model or an executor in full.", "NAME")] | None = None
    out: Out = Path("runs")
    json_: Json = False


def _verb(question: type[Question], head: str, run: str, example: str) -> Verb:
    return Verb(question.__name__.lower(), (question,), example, run=f"twinlens.cli.verb.{run}", head=head)


DEMO = _verb(Demo, "Measure", "demo:run", "")
MEASURE = _verb(Measure, "Measure", "measure:run", "chat --at rate_per_s=2,4 --set protocol.repeats=3")
TUNE = _verb(Tune, "Measure", "measure:tune", "tune-vllm --set tune.budget.trials=6")
CHECK = _verb(Check, "Measure", "specs:checked", "chat --at rate_per_s=2,4")
NEW = _verb(New, "Measure", "specs:written", "chat -o my.toml")
PROBE = _verb(Probe, "Measure", "probe:run", "--json > machine.json")
BURNIN = _verb(Burnin, "Measure", "probe:burnt_in", "--for 48h --criteria accept.toml")
SIMULATE = Verb("simulate", (Simulate, SimulateServed), "chat --like runs/STUDY --at rate_per_s=2,4,8",
                run="twinlens.cli.verb.simulate:run", head="Plan")  # fmt: skip
SHOW = _verb(Show, "Read", "show:run", "runs/STUDY --all")
DIAGNOSE = _verb(Diagnose, "Read", "diagnose:run", "runs/STUDY")
COMPARE = Verb("compare", (Compare, Ledger, Table, History), "runs/BEFORE runs/AFTER --fail-if 'TTFT p99 +5%'",
               run="twinlens.cli.verb.compare:run", head="Read")  # fmt: skip
REPORT = _verb(Report, "Read", "report:run", "runs -o report.html")
BROWSE = _verb(Browse, "Read", "report:browse", "runs")
GATEWAY = _verb(Gateway, "Serve", "gateway:run", "gateway.toml")
SITE = _verb(Site, "Read", "report:site", "docs/results -o site")
EVIDENCE = _verb(Evidence, "Read", "evidence:run", "runs/STUDY -o pack.zip")
EXPLAIN = _verb(Explain, "Look up", "looking_up:explained", "ttft")
LIST = _verb(List, "Look up", "looking_up:listed", "examples")
VERBS = (
    DEMO, MEASURE, TUNE, CHECK, NEW, PROBE, BURNIN, SHOW, DIAGNOSE, COMPARE, REPORT, BROWSE, SITE, CLAIM, EVIDENCE,
    SIMULATE, GATEWAY, EXPLAIN, LIST,
)  # fmt: skip
