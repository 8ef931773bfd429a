"""A talk kept as a run that says what it is, and as the text of a spec that measures the same server."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from twinlens.errors import BadInput
from twinlens.measurement.summary_file import store_summary
from twinlens.record.codec import encode
from twinlens.record.executor.facts import Facts
from twinlens.record.executor.record import ExecutorRecord, declared, observed
from twinlens.record.finding import Finding
from twinlens.record.request import Request
from twinlens.record.store import create_run, end_run, open_rows, read_run, update_run
from twinlens.spec.load import dump, parse
from twinlens.spec.source.attached import attached
from twinlens.spec.study import RunSpec, Study
from twinlens.version import __version__
from twinlens.web.playground.beside import INTERACTIVE
from twinlens.web.playground.upstream import Exchange
from twinlens.web.playground.wanted import CODE

_LEAST_TOKENS = 1


def saved(exchanges: Sequence[Exchange], out: Path) -> Path:
    """The folder of a run whose rows are these exchanges. Raises BadInput (TL273) where none of them is here any more,
    or none was answered."""
    came = [each for each in exchanges if each.chunk_ns]
    if not came:
        raise BadInput("nothing of this talk is kept here any more, or nothing was answered; ask again", code=CODE)
    if len({each.wanted.url for each in came}) > 1:
        raise BadInput("a run has one server; save the talk with each on its own", code=CODE)
    folder = create_run(out, run_spec(came))
    origin_ns = min(each.sent_ns for each in came)
    with open_rows(folder, run_spec(came)) as rows:
        for number, each in enumerate(came):
            rows.add(row_of(each, number, origin_ns))
    update_run(folder, place="elsewhere", facts=encode(_facts(came[0], len(came))))
    end_run(folder, "finished", rows=len(came))
    store_summary(read_run(folder))
    return folder


def row_of(exchange: Exchange, number: int, origin_ns: int) -> Request:
    """One exchange as a row. Tokens that the server counted and chunks did not show are with the last chunk."""
    chunks, sent_ns = len(exchange.chunk_ns), exchange.sent_ns - origin_ns
    tokens = [1] * chunks
    if exchange.tokens > chunks:
        tokens[-1] += exchange.tokens - chunks
    asked = exchange.wanted.max_tokens
    return Request(
        group=number, intended_ns=sent_ns, sent_ns=sent_ns,
        chunk_ns=tuple(each - origin_ns for each in exchange.chunk_ns), chunk_tokens=tuple(tokens),
        end_ns=exchange.end_ns - origin_ns, input_tokens=exchange.prompt_tokens, output_tokens=exchange.tokens,
        outcome="failed" if exchange.error else "ok", asked_tokens=asked, status=exchange.status,
        error=exchange.error, merged_reads=exchange.merged, reasoning_chunks=exchange.answer.reasoning,
    )  # fmt: skip


def study_of(exchanges: Sequence[Exchange]) -> Study:
    """A study of the same server with a load of such requests: what to measure instead of talking."""
    first = exchanges[0]
    prompt = max(_LEAST_TOKENS, round(sum(each.prompt_tokens or 64 for each in exchanges) / len(exchanges)))
    answer = max(_LEAST_TOKENS, round(sum(each.tokens for each in exchanges) / len(exchanges)))
    load: dict[str, Any] = {
        "workload": {
            "kind": "inference", "input_tokens": {"kind": "fixed", "value": prompt},
            "output_tokens": {"kind": "fixed", "value": answer}, "arrival": {"kind": "closed"},
        },
        "protocol": {"repeats": 1, "duration_s": 60.0, "steady_s": 20.0},
        "point": {"concurrency": max(1, first.wanted.at_once)},
    }  # fmt: skip
    options = {"url": first.wanted.url, **({"model": first.wanted.model} if first.wanted.model else {})}
    return parse(attached(load, options, first.wanted.model or "served"), where="this talk")


def run_spec(exchanges: Sequence[Exchange]) -> RunSpec:
    """What the run was asked for, as far as a talk is asked for anything."""
    return study_of(exchanges).runs()[0].model_copy(update={"name": "chat"})


def spec_text(exchanges: Sequence[Exchange]) -> str:
    """The text of that study, to copy into a file."""
    return f"# Requests such as those of a talk, measured: twinlens measure FILE.toml\n{dump(study_of(exchanges))}"


def _facts(exchange: Exchange, count: int) -> Facts:
    wanted = exchange.wanted
    told = "greedy (temperature 0)" if wanted.temperature == 0 else f"sampled at temperature {wanted.temperature:g}"
    fields = {
        "software.runtime.name": declared("a server over HTTP", "a page"),
        "model.id": declared(wanted.model or "not said", "the server or the page"),
        "decoding.strategy": declared(told, "request"),
        "protocol.timer": observed("monotonic clock of the site, as bytes arrive", f"twinlens {__version__}"),
    }
    finding = Finding(INTERACTIVE, "disqualifies", "", {"requests": count})
    return Facts(ExecutorRecord(fields), findings=(finding,))
