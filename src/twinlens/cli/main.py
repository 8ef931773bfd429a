"""The command line: one thin function per verb. What it needs is imported when it is called: `--help` is quick."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Annotated

import typer

from twinlens.cli.help import Verbs
from twinlens.cli.plain_letters import REPLACE, as_text
from twinlens.cli.plan.group import app as plan
from twinlens.system.interrupts import raising_interrupts
from twinlens.system.numpy_threads import load_numpy
from twinlens.version import __version__

app = typer.Typer(
    name="twinlens",
    cls=Verbs,
    context_settings={"help_option_names": ["-h", "--help"]},
    subcommand_metavar="VERB ...",
    help="Two lenses on AI performance, training and inference, never averaged.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

Set = Annotated[list[str] | None, typer.Option("--set", metavar="PATH=VALUE", help="Change a field of the spec.")]
At = Annotated[
    list[str] | None,
    typer.Option("--at", metavar="FIELD=V,V", help="How hard: rate_per_s=1,2,4, concurrency=1,8 …"),
]
Url = Annotated[
    str | None, typer.Option("--url", metavar="URL", help="An OpenAI-compatible server that is up; no file is needed.")
]
Model = Annotated[
    str | None, typer.Option("--model", metavar="NAME", help="The model; with --url, where it serves several.")
]
KeyEnv = Annotated[
    str | None,
    typer.Option("--key-env", metavar="VARIABLE", help="Holds the key, else OPENAI_API_KEY."),
]
Out = Annotated[Path, typer.Option("--out", help="Where run folders go.")]
Json = Annotated[bool, typer.Option("--json", help="Machine-readable output on stdout.")]
Quiet = Annotated[bool, typer.Option("-q", "--quiet", help="No progress.")]
Fresh = Annotated[bool, typer.Option("--fresh", help="Start over instead of resuming an unfinished study.")]
On = Annotated[
    str | None,
    typer.Option("--on", metavar="ray://HOST:PORT", help="Generate the load, or train, on a Ray cluster."),
]
GateFlag = Annotated[
    str | None,
    typer.Option(
        "--gate",
        metavar="[valid|provisional]",
        help="Exit 1 if a point is not in that state (valid if none is named), misses its target, its SLO is missed or "
        "undecided, or it is a no-go.",
    ),
]
Sides = Annotated[
    list[Path], typer.Argument(metavar="RUN", help="Run or study folders, the baseline first; FOLDER@batch=4: a point.")
]
RunPaths = Annotated[list[Path], typer.Argument(metavar="RUN", help="Run folders, study folders, or folders of them.")]

MaybeRuns = Annotated[
    list[Path] | None, typer.Argument(metavar="[RUN]", help="Run folders, study folders, or folders of them.")
]


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"twinlens {__version__}")
        raise typer.Exit()


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


@app.command()
def demo(out: Out = Path("runs"), json: Json = False, quiet: Quiet = False, fresh: Fresh = False) -> None:
    """Train and serve a small model here, and report both lenses."""
    load_numpy()
    from twinlens.cli.demo import run

    run(out, json, quiet, fresh)


@app.command()
def probe(
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:N.")] = "auto",
    collectives: Annotated[
        bool, typer.Option("--collectives", help="Time exchanges between processes too, a minute.")
    ] = False,
    ranks: Annotated[
        int | None, typer.Option(min=2, max=1024, help="Processes of --collectives; one per GPU, or 2.")
    ] = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Who is this machine, with measured ceilings per precision."""
    load_numpy()
    from twinlens.cli.probe import run

    run(device, json, quiet, collectives, ranks)


@app.command()
def check(
    spec: Annotated[Path, typer.Argument(metavar="SPEC")], set_: Set = None, at: At = None, json: Json = False
) -> None:
    """Check a spec and predict it from theory; touches nothing."""
    load_numpy()
    from twinlens.cli.check import run

    run(spec, set_ or [], at or [], json)


@app.command()
def measure(
    spec: Annotated[
        str | None, typer.Argument(metavar="[SPEC]", help="A spec file, a shipped example, or a run folder.")
    ] = None,
    url: Url = None,
    model: Model = None,
    key_env: KeyEnv = None,
    at: At = None,
    set_: Set = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="A minute of load, for a look: one short run a point.")
    ] = False,
    out: Out = Path("runs"),
    json: Json = False,
    quiet: Quiet = False,
    fresh: Fresh = False,
    gate: GateFlag = None,
    on: On = None,
) -> None:
    """Measure a spec, an example, or a server that is up (--url). An interrupted study is resumed."""
    load_numpy()
    from twinlens.cli.asked import Asked
    from twinlens.cli.measure import Switches, cluster, run

    settings = (*(set_ or ()), *cluster(on))
    run(Asked(spec, url, model, key_env, settings, tuple(at or ()), quick), out, Switches(json, quiet, fresh, gate))


@app.command()
def new(
    what: Annotated[str | None, typer.Argument(metavar="[EXAMPLE]", help="Its name: `twinlens list examples`.")] = None,
    source: Annotated[
        Path | None, typer.Option("--from", metavar="RUN", help="What this run or study was asked for.")
    ] = None,
    url: Url = None,
    model: Model = None,
    key_env: KeyEnv = None,
    at: At = None,
    set_: Set = None,
    file: Annotated[Path | None, typer.Option("-o", "--output", metavar="FILE.toml")] = None,
) -> None:
    """Write a spec to edit: an example, a run again, or a server."""
    load_numpy()
    from twinlens.cli.asked import Asked
    from twinlens.cli.new import run

    run(Asked(what, url, model, key_env, tuple(set_ or ()), tuple(at or ())), source, file)


@app.command()
def show(
    runs: RunPaths,
    json: Json = False,
    tool: Annotated[str | None, typer.Option("--as", metavar="TOOL", help="In the figures of another tool.")] = None,
    whole: Annotated[bool, typer.Option("--all", help="Every metric, and how each was computed.")] = False,
    csv: Annotated[bool, typer.Option("--csv", help="Every metric of every run, a line each.")] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="For an issue or a pull request.")] = False,
    parquet: Annotated[
        Path | None, typer.Option("--parquet", metavar="FILE", help="Write the steps or requests to a file.")
    ] = None,
) -> None:
    """A run on one screen, or the points of a study in tables. With --as vllm: as that tool counts."""
    load_numpy()
    from twinlens.cli.show import Form, run

    run(runs, Form(json, tool, whole, csv, markdown, parquet))


@app.command()
def diagnose(
    runs: MaybeRuns = None,
    json: Json = False,
    whole: Annotated[bool, typer.Option("--all", help="Every finding, with all that decided.")] = False,
    self_test: Annotated[
        bool, typer.Option("--self-test", help="Saturate one resource after another here; RUN may name cases.")
    ] = False,
    try_: Annotated[bool, typer.Option("--try", help="Measure the change that would prove its verdict wrong.")] = False,
    file: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE.html", help="Write an HTML page, too.")
    ] = None,
    ceilings: Annotated[
        Path | None,
        typer.Option("--ceilings", metavar="PROBE.json", help="Of the server's machine, from `probe --json`."),
    ] = None,
    instrument: Annotated[
        str | None, typer.Option("--instrument", metavar="profiler", help="Its work once more, watched; in no figure.")
    ] = None,
) -> None:
    """What binds a run: its time by part, four counters, and what to try."""
    if not (self_test or try_ or instrument):  # these measure
        load_numpy()
    if self_test:
        from twinlens.cli.self_test import run as run_self_test

        run_self_test(list(map(str, runs or ())), json)
        return
    from twinlens.cli.diagnose import run

    run(runs or [], json, whole, file, ceilings, try_, instrument)


@app.command()
def compare(
    runs: Sides,
    json: Json = False,
    whole: Annotated[bool, typer.Option("--all", help="Every finding and every figure.")] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="A table for a pull request.")] = False,
    fail_if: Annotated[
        list[str] | None, typer.Option("--fail-if", metavar="LIMIT", help="Exit 1 beyond it: 'TTFT p99 +5%'.")
    ] = None,
    file: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE.html", help="Write an HTML page, too.")
    ] = None,
    ledger: Annotated[bool, typer.Option("--ledger", help="A baseline and steps, with what each one gave.")] = False,
    price_per_hour: Annotated[
        float | None, typer.Option(metavar="PRICE", help="Of the machine, for the cost column of a ledger.")
    ] = None,
    per_month: Annotated[
        float | None, typer.Option(metavar="COUNT", help="Inferences a month, for what a step repays.")
    ] = None,
    table: Annotated[
        str | None,
        typer.Option(metavar="TABLE", help="lenses: both side by side; runtimes: the kernels' share; switches: each."),
    ] = None,
    noise: Annotated[
        Path | None, typer.Option("--noise", metavar="FOLDER", help="One spec at three times: the noise floor.")
    ] = None,
    history: Annotated[
        bool, typer.Option("--history", help="The metric over time: when it changed, and what changed then.")
    ] = False,
    metric: Annotated[
        str | None, typer.Option("--metric", metavar="NAME", help="This one only: 'TTFT p99', 'tokens/s' …")
    ] = None,
) -> None:
    """Whether runs may be compared, how far apart they are, and why."""
    load_numpy()
    from twinlens.cli.compare import Form, run, run_ledger, run_table

    if history:
        from twinlens.cli.history import run as run_history

        run_history(runs, metric, json=json, markdown=markdown, whole=whole, page=file)
    elif table is not None:
        run_table(runs, table, json, whole, file)
    elif ledger:
        run_ledger(runs, json, price_per_hour, per_month, file)
    else:
        run(runs, Form(json, whole, markdown, tuple(fail_if or ()), file, noise, metric))


@app.command()
def report(
    runs: RunPaths,
    file: Annotated[Path, typer.Option("-o", "--output", metavar="FILE.html")] = Path("report.html"),
) -> None:
    """Write one self-contained HTML file."""
    load_numpy()
    from twinlens.cli.report import run

    run(runs, file)


@app.command()
def claim(
    words: Annotated[
        list[str] | None, typer.Argument(metavar="[SENTENCE]", help="'70B Q4 does 45 tok/s on 1.79 TB/s'.")
    ] = None,
    says: Annotated[
        str | None, typer.Option("--says", metavar="FIGURE", help="The figure: '45 tok/s', '40 GB'.")
    ] = None,
    model: Annotated[str | None, typer.Option("--model", metavar="NAME", help="A size or a model: 70B.")] = None,
    precision: Annotated[str | None, typer.Option("--precision", metavar="FORMAT", help="FP16, INT8, Q4_K_M …")] = None,
    kv: Annotated[str | None, typer.Option("--kv", metavar="FORMAT", help="Of the KV cache.")] = None,
    batch: Annotated[str | None, typer.Option("--batch", metavar="COUNT")] = None,
    users: Annotated[str | None, typer.Option("--users", metavar="COUNT")] = None,
    context: Annotated[str | None, typer.Option("--context", metavar="TOKENS", help="8192, 32K …")] = None,
    device: Annotated[str | None, typer.Option("--device", metavar="NAME", help="H100 …")] = None,
    devices: Annotated[str | None, typer.Option("--devices", metavar="COUNT")] = None,
    bandwidth: Annotated[str | None, typer.Option("--bandwidth", metavar="RATE", help="'1.79 TB/s'.")] = None,
    json: Json = False,
) -> None:
    """Whether a figure in a sentence holds: computed, what is missing, and what would be right."""
    load_numpy()
    from twinlens.cli.claim import run

    fields = {
        "says": says, "model": model, "precision": precision, "kv": kv, "batch": batch, "users": users,
        "context": context, "device": device, "devices": devices, "bandwidth": bandwidth,
    }  # fmt: skip
    run(words or [], fields, json)


app.add_typer(plan, name="plan", help="What fits, how fast it would be, and what it costs.")


@app.command()
def evidence(
    runs: Annotated[
        list[Path] | None, typer.Argument(metavar="[RUN]", help="Run folders, study folders, or folders of them.")
    ] = None,
    file: Annotated[Path | None, typer.Option("-o", "--output", metavar="FILE.zip", help="Write the pack.")] = None,
    name: Annotated[str | None, typer.Option("--name", metavar="NAME", help="Who measured.")] = None,
    organisation: Annotated[str | None, typer.Option("--organisation", metavar="NAME")] = None,
    contact: Annotated[str | None, typer.Option("--contact", metavar="ADDRESS")] = None,
    role: Annotated[str | None, typer.Option("--role", metavar="ROLE", help="buyer, vendor, 'third party'.")] = None,
    key: Annotated[Path | None, typer.Option("--key", metavar="FILE", help="Sign with this key of ssh.")] = None,
    verify: Annotated[Path | None, typer.Option("--verify", metavar="FILE.zip", help="Check a pack.")] = None,
    question: Annotated[
        str | None,
        typer.Option("--for", metavar="FIELDS", help="Which runs answer: precision=bf16,rate_per_s=8,slo.ttft_s=0.5"),
    ] = None,
    signers: Annotated[
        Path | None, typer.Option("--signers", metavar="FILE", help="Whose keys are whose: ssh's allowed_signers.")
    ] = None,
    json: Json = False,
) -> None:
    """Runs in a file that others can check (-o, --verify); which runs answer (--for)."""
    load_numpy()
    from twinlens.cli.evidence import run, run_for, run_verify

    if verify is not None:
        run_verify(verify, signers, json)
    elif question is not None:
        run_for(runs or [], question, json)
    else:
        who = {"name": name, "organisation": organisation, "contact": contact, "role": role}
        run(runs or [], file, who, key, json)


@app.command()
def explain(word: Annotated[str | None, typer.Argument(metavar="WORD")] = None) -> None:
    """What a metric, label, error or term means. Without a word: the names of all pages."""
    from twinlens.cli.explain import run

    run(word)


@app.command("list")
def list_(
    kind: Annotated[str, typer.Argument(metavar="KIND", help="models, devices, executors, metrics, …")] = "kinds",
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="One device or model, with every field.")] = None,
    out: Out = Path("runs"),
    json: Json = False,
) -> None:
    """What is available here: models, examples, metrics, runs …"""
    from twinlens.cli.listing import run

    run(kind, name, out, json)


_READING = ("show", "diagnose", "compare", "report")
_NOT_READING = {"-h", "--help", "--self-test", "--try", "--instrument"}


def _begin(words: list[str]) -> None:
    """Make this process one that only reads, where that is all its verb does."""
    if words[:1] and words[0] in _READING and not _NOT_READING & {word.split("=")[0] for word in words}:
        from twinlens.system.reading_process import only_read

        only_read()


def main() -> None:
    """Entry point of the `twinlens` command."""
    sys.argv[1:] = as_text(sys.argv[1:])
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and not stream.encoding.lower().startswith("utf"):
            stream.reconfigure(errors=REPLACE)
    with raising_interrupts():  # a verb says a sentence; until it is imported, the exit code must do
        try:
            _begin(sys.argv[1:])
            app()
        except KeyboardInterrupt:
            raise SystemExit(130) from None


if __name__ == "__main__":
    main()
