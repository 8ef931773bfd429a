"""`twinlens measure` and `twinlens tune`: run a study or a tuning, say where it went, show what it came to."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from twinlens.api.measuring.spec_asked import study_of
from twinlens.api.questions import Measure, Tune
from twinlens.cli.commands import GATES
from twinlens.cli.console import out
from twinlens.cli.screen import err, print_json, sentences
from twinlens.errors import BadInput
from twinlens.executors.registry import capabilities, is_ours
from twinlens.measurement.preflight.check import expected_s, without_quantile
from twinlens.spec.study import Study
from twinlens.spec.workload.arrival import Closed
from twinlens.spec.workload.length import Fixed, Free
from twinlens.spec.workload.prompt import Classify, Embed, Rerank
from twinlens.spec.workload.workload import InferenceWorkload
from twinlens.system.reading_process import keep_pandas_out
from twinlens.units import show

if TYPE_CHECKING:
    from twinlens.record.run import Run


def kept_weights(runs: Iterable[Run]) -> list[Path]:
    """The folders of weights that runs kept (`workload.save`), to be named as `workload.model` of another study."""
    return [kept for run in runs if (kept := run.folder / "weights").is_dir()]


def run(name: str, given: Mapping[str, Any]) -> None:
    with sentences():
        asked = Measure.read(name, given)
        if asked.gate not in (None, *GATES):
            raise BadInput(f"--gate demands {' or '.join(GATES)}, not {asked.gate!r}")
        study, given_up = study_of(asked.spec, asked)
        if not asked.quiet:
            for line in filter(None, [*opening(study), given_up]):
                err().print(line, soft_wrap=True)
        if is_ours(study.executor.kind):
            keep_pandas_out()
        # The rest takes a second to load: what is about to happen is on screen by then.
        from twinlens.api.measuring.gate import gate, raise_failures
        from twinlens.api.measuring.studies import measure
        from twinlens.api.runs import as_json
        from twinlens.cli.progress import progress, tell_refusals
        from twinlens.cli.verb.show import print_runs
        from twinlens.record.store import end_study

        outcome = measure(study, asked.out, watch=progress(asked.quiet), fresh=asked.fresh, keep_open=True)
        tell_refusals([outcome])
        if asked.json_:
            print_json(as_json(outcome.runs))
        else:
            print_runs(outcome.runs)
            err().print(f"\nruns: {outcome.folder}", soft_wrap=True)
            for kept in kept_weights(outcome.runs):
                err().print(f"weights: {kept}", soft_wrap=True)
        sys.stdout.flush()
        end_study(outcome.folder)
        raise_failures(outcome)
        if asked.gate is not None:
            gate(outcome, asked.gate)


def tune(name: str, given: Mapping[str, Any]) -> None:
    """Search within a bound, prove the winner, and say whether anything was gained."""
    with sentences():
        asked = Tune.read(name, given)
        from twinlens.api.measuring.tune import tune as tuned
        from twinlens.cli.progress import progress
        from twinlens.tuning.tuning import end_tuning

        found = tuned(asked.spec, asked.out, watch=progress(asked.quiet), set_=asked.set_, fresh=asked.fresh,
                      keep_open=True)  # fmt: skip
        if asked.file is not None:
            found.write_html(asked.file)
        if asked.json_:
            print_json(found.to_json())
        else:
            out().print(found.screen(why=asked.all_))
            err().print(f"\ntuning: {found.folder}", soft_wrap=True)
        sys.stdout.flush()
        end_tuning(found.folder)


# The lines before the first run: what is measured, how hard and how long, and what will be missing from it.


def opening(study: Study) -> list[str]:
    """For a server that is up: who it is and the load. For any load: the quantiles that its runs are too short for."""
    workload = study.workload
    if not isinstance(workload, InferenceWorkload):
        return []
    lines = [_server(study), _load(study, workload)] if capabilities(study.executor.kind).runs == "elsewhere" else []
    return [*lines, *filter(None, [without_quantile(study)])]


def _server(study: Study) -> str:
    options = study.executor.options
    key = f", key from {options['api_key_env']}" if options.get("api_key_env") else ""
    api = ", by its completions API" if options.get("endpoint") == "completions" else ""
    return f"{study.workload.model} at {options.get('url', 'several servers')}{api}{key}"


def _load(study: Study, workload: InferenceWorkload) -> str:
    lasts = [run.protocol.duration_s for run in study.runs()]
    of = f"{min(lasts):g} s" if len({*lasts}) == 1 else f"{min(lasts):g}–{max(lasts):g} s"
    each = f"{len(lasts)} run{'' if len(lasts) == 1 else 's'} of {of}"
    total = f"about {show(expected_s(study), 's')}"
    said = f"{_asked(workload)}; {_how_hard(study, workload)}; {each}, {total} in all"
    protocol = study.protocol
    if protocol.most_s <= protocol.duration_s:
        return said
    until = "its SLO is decided" if workload.slo else f"p90 TTFT is known within {protocol.width:.0%}"
    return f"{said}; each goes on until {until}, {protocol.most_s:g} s at most"


def _asked(workload: InferenceWorkload) -> str:
    """ "256 tokens in, 128 out", "embeddings of 4 × 64 tokens", "2 images a request"."""
    prompt, answer = workload.input_tokens, workload.output_tokens
    into = f"{prompt.value}" if isinstance(prompt, Fixed) else f"{prompt.kind} up to {prompt.max}"
    match workload.task:
        case Embed(texts=texts):
            return f"embeddings of {texts} × {into} tokens"
        case Rerank(documents=documents, query_tokens=query):
            return f"{documents} documents of {into} tokens by a query of {query}"
        case Classify(images=images):
            return f"{images} image{'' if images == 1 else 's'} a request"
    out = f"{answer.value}" if isinstance(answer, Fixed) else f"up to {answer.max}"
    ends = ", as the model likes" if isinstance(answer, Free) else ""
    return f"{into} tokens in, {out} out{ends}"


def _how_hard(study: Study, workload: InferenceWorkload) -> str:
    if study.search is not None:
        return f"a search over {study.search.over}"
    points = [run.point for run in study.point_runs()]
    if isinstance(workload.arrival, Closed):
        return f"{_listed([point.concurrency for point in points])} requests in flight"
    rates = _listed([point.rate_per_s for point in points])
    return f"{workload.arrival.kind} arrivals" + (f" at {rates}/s" if rates else "")


def _listed(values: list[int | None] | list[float | None]) -> str:
    return ", ".join(f"{value:g}" for value in dict.fromkeys(values) if value is not None)
