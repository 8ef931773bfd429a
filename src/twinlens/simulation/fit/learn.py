"""A machine learnt from runs: what they may teach, their steps, and the rules that their server was seen to follow."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow.compute as pc

from twinlens.errors import BadInput
from twinlens.measurement.summary_file import summary_of
from twinlens.record.request import UNCOUNTED, Requests
from twinlens.record.run import Run
from twinlens.simulation.fit.law import FittedLaw, Setting, Span, fitted, law_of
from twinlens.simulation.fit.least import BEFORE, BLOCK, Fit, Observed, least_squares
from twinlens.simulation.fit.own_run import Lacking, lacking, times
from twinlens.simulation.fit.power import power_of
from twinlens.simulation.fit.steps import EngineSteps, recover
from twinlens.simulation.rules import Rules
from twinlens.simulation.work import Floats
from twinlens.stats.summary.serving import is_served

UNTEACHABLE = "TL245"
FEWEST_STEPS = 8 * BLOCK
MOST_MERGED = 0.05
"""Share of chunks that came in one read with others, whose times are therefore one."""
MOST_CONTRADICTED = 0.05
MOST_SMEARED = 0.3
_DOUBTFUL = 0.02
_FULL = 0.5
MOST_TOKENS_EACH = 1.05
_FACTS = {
    "max_num_seqs": "serving.max_sequences",
    "max_num_batched_tokens": "serving.max_batched_tokens",
    "enable_chunked_prefill": "serving.chunked_prefill",
    "num_gpu_blocks": "serving.kv_blocks",
    "block_size": "serving.kv_block_tokens",
    "enable_prefix_caching": "serving.prefix_cache",
    "max_model_len": "serving.context_tokens",
}


@dataclass(frozen=True, slots=True, eq=False)
class Taught:
    """One run with its steps in its window."""

    run: Run
    requests: Requests
    steps: EngineSteps
    observed: Observed


def learn(runs: Iterable[Run], seed: int = 0) -> FittedLaw:
    """The law of the machine that served these runs: any rates and lengths, of one server or of several started afresh.

    Of several runs, those that cannot teach are left out, which is a doubt. Raises BadInput (TL245) for no run, where
    none can teach, with the reason, and for runs of different settings.
    """
    chosen = list(runs)
    if not chosen:
        raise BadInput("no run was given to learn from: name the folder of a served run", code=UNTEACHABLE)
    rules, assumed = _common_rules(chosen)
    taught, left = _all_taught(chosen, rules)
    _refuse_few_steps(taught)
    by_server: dict[str, list[Observed]] = defaultdict(list)
    for each in taught:
        by_server[each.observed.server].append(each.observed)
    servers = [_joined(each) for each in by_server.values()]
    contradicted = max(each.steps.contradicted for each in taught)
    setting = Setting(
        ", ".join(run.id for run in chosen), rules, assumed, _reach(taught), contradicted,
        (*left, *_doubts(taught, contradicted, len(servers))),
    )  # fmt: skip
    fit = least_squares(servers)
    law = fitted(fit, servers, setting, [_lacking(each, fit, servers, setting) for each in taught], seed)
    return replace(law, powers=power_of([(each.run, each.steps) for each in taught], seed))


def rules_of(run: Run) -> tuple[Rules, tuple[str, ...]]:
    """The rules that the run recorded of its server, and the names of those that nobody recorded."""
    found: dict[str, Any] = {}
    for name, fact in _FACTS.items():
        value = run.facts.executor.value(fact) if run.facts else None
        if isinstance(value, bool | int):
            found[name] = value
    return replace(Rules(), **found), tuple(name for name in _FACTS if name not in found)


def _common_rules(runs: Sequence[Run]) -> tuple[Rules, tuple[str, ...]]:
    first, (rules, assumed) = runs[0], rules_of(runs[0])
    for run in runs[1:]:
        other, _ = rules_of(run)
        asked = {
            "model": run.spec.workload.model != first.spec.workload.model,
            "precision": run.spec.point.precision != first.spec.point.precision,
            "executor": run.spec.executor != first.spec.executor,
        }
        differing = [name for name, differs in asked.items() if differs]
        differing += [name for name in _FACTS if getattr(other, name) != getattr(rules, name)]
        if differing:
            raise BadInput(
                f"{first.id} and {run.id} differ in {', '.join(differing)}: learn from runs of one setting",
                code=UNTEACHABLE,
            )
    return rules, assumed


def _all_taught(runs: Sequence[Run], rules: Rules) -> tuple[list[Taught], list[str]]:
    """Those that teach, and a sentence on the others. Raises BadInput (TL245) where none does."""
    taught, faults = list[Taught](), list[BadInput]()
    for run in runs:
        try:
            taught.append(_taught(run, rules))
        except BadInput as error:
            faults.append(error)
    if not taught:
        raise faults[0]
    return taught, [f"{len(faults)} of {len(runs)} runs are left out: {faults[0]}"] if faults else []


def _taught(run: Run, rules: Rules) -> Taught:
    _refuse_unusable(run)
    requests = run.requests.own_time()
    chunks = len(requests.chunk_ns)
    merged = pc.sum(run.table.column("merged_reads")).as_py() or 0 if "merged_reads" in run.table.column_names else 0
    if chunks < 2:
        raise _unteachable(run, "it has fewer than two chunks")
    if np.isnan(requests.input_tokens).any():
        raise _unteachable(run, UNCOUNTED)
    if merged > MOST_MERGED * chunks:
        raise _unteachable(
            run, f"{merged / chunks:.0%} of its chunks came in one read with others, so their times are not their own"
        )
    steps = recover(requests, rules)
    if steps.contradicted > MOST_CONTRADICTED:
        raise _unteachable(
            run,
            f"its engine steps cannot be told apart: {steps.contradicted:.0%} of the tokens are not where one engine"
            " that gives every running request a token in each step would have put them",
        )
    if steps.tokens_each > MOST_TOKENS_EACH:
        raise _unteachable(
            run,
            f"a request got {steps.tokens_each:.2f} tokens a step, as with speculative decoding or from a server that"
            " gathers tokens, so that the work of a step is not known",
        )
    server, begin_s = server_of(run), summary_of(run).verdict.begin_s
    if steps.smeared > MOST_SMEARED:
        raise _unteachable(
            run,
            "its engine steps cannot be told apart: tokens that should have come together are "
            f"{steps.smeared:.0%} of a step apart, as from several engines or over a network that delays them",
        )
    observed = observed_of(requests, steps, rules, server, begin_s)
    if (
        steps.tokens.max() > _FULL * rules.max_num_batched_tokens
    ):  # which pieces prompts came in hangs on when they began
        steps = recover(requests, rules, float(least_squares([observed]).constants[BEFORE]))
        observed = observed_of(requests, steps, rules, server, begin_s)
    return Taught(run, requests, steps, observed)


def _refuse_few_steps(taught: Sequence[Taught]) -> None:
    """Runs teach together what one of them is too short for."""
    count = sum(int((each.observed.work[:, BEFORE] == 0).sum()) for each in taught)
    if count < FEWEST_STEPS:
        have = "it has" if len(taught) == 1 else f"the {len(taught)} runs together have"
        raise _unteachable(taught[0].run, f"{have} {count} engine steps on end, and a law needs {FEWEST_STEPS}")


def _refuse_unusable(run: Run) -> None:
    if not is_served(run):
        raise _unteachable(run, "it is no run of requests under load")
    if not run.is_finished:
        raise _unteachable(run, f"it is {run.state}, not finished")
    summary = summary_of(run)
    # A limit that the machine missed says nothing against what was measured of it.
    wrong = [finding for finding in summary.disqualified if finding.code != "slo-missed"]
    if wrong or summary.verdict.validity == "not valid":
        raise _unteachable(run, f"it is not valid ({summary.label})")
    parallel = run.facts.executor.value("serving.parallel") if run.facts else None
    engines = int(parallel.get("data_parallel") or 1) if isinstance(parallel, dict) else 1
    engines *= run.sections.server.replicas if run.sections.server else 1
    if engines > 1:
        raise _unteachable(
            run, f"{engines} engines stand behind its address, and steps of several cannot be told apart"
        )


def _unteachable(run: Run, why: str) -> BadInput:
    return BadInput(f"{run.id} teaches no law: {why}", code=UNTEACHABLE)


def observed_of(requests: Requests, steps: EngineSteps, rules: Rules, server: str, begin_s: float = 0.0) -> Observed:
    """Steps that followed another at once, and first tokens of requests alone in the engine, from `begin_s` on."""
    nothing = np.zeros(len(steps.end_s))
    work = np.column_stack([nothing + 1, steps.rows, steps.context, steps.tokens, steps.pairs, nothing])
    inside = (steps.end_s >= begin_s) & np.isfinite(steps.duration_s)
    alone = np.flatnonzero(steps.found_idle & (requests.sent_ns / 1e9 >= begin_s))
    alone = alone[steps.rows[steps.first_step[alone]] == 1]
    end_s = steps.end_s[steps.first_step[alone]]
    own = np.column_stack([_alone(requests.input_tokens[alone], rules), np.ones(len(alone))])
    order = np.argsort(np.concatenate([steps.end_s[inside], end_s]), kind="stable")
    seconds = np.concatenate([steps.duration_s[inside], end_s - requests.sent_ns[alone] / 1e9])
    return Observed(server, np.concatenate([work[inside], own])[order], seconds[order])


def _alone(prompt_tokens: np.ndarray, rules: Rules) -> Floats:
    """Work of prompts (n,) that have the engine for themselves, by term but for the last: (n, terms - 1)."""
    most = min(rules.max_num_batched_tokens, rules.long_prefill_token_threshold or rules.max_num_batched_tokens)
    pieces = np.ceil(prompt_tokens / most)
    pairs = prompt_tokens * (prompt_tokens + 1) / 2
    return np.column_stack([pieces, pieces, 0 * pieces, prompt_tokens - pieces, pairs])


def _lacking(taught: Taught, fit: Fit, servers: Sequence[Observed], setting: Setting) -> Lacking:
    """What the law of the server that this run was served by lacks of it."""
    place = [each.server for each in servers].index(taught.observed.server)
    own = times(law_of(fit.constants, setting.source), float(fit.levels[place]))
    own = replace(own, before_s=own.before_s * float(fit.before[place]))
    begin_s = summary_of(taught.run).verdict.begin_s
    return lacking(taught.requests, own, fit.ratios[place], setting.rules, begin_s)


def server_of(run: Run) -> str:
    """Who served: one launched server, or one address."""
    if run.sections.server:
        return run.sections.server.id
    return str(run.spec.executor.options.get("url") or run.id)


def _joined(observed: Sequence[Observed]) -> Observed:
    return Observed(
        observed[0].server,
        np.concatenate([each.work for each in observed]),
        np.concatenate([each.seconds for each in observed]),
    )


def _reach(taught: Sequence[Taught]) -> dict[str, Span]:
    def span(values: Iterable[np.ndarray]) -> Span:
        all_values = np.concatenate([np.ravel(each) for each in values])
        return Span(float(all_values.min()), float(all_values.max()))

    rates = [np.array([_rate(each.requests)]) for each in taught]
    return {
        "rows": span(each.observed.work[:, 1] for each in taught),
        "context": span(each.observed.work[:, 2] for each in taught),
        "step_tokens": span(each.observed.work[:, 3] for each in taught),
        "prompt_tokens": span(each.requests.input_tokens for each in taught),
        "answer_tokens": span(each.requests.output_tokens for each in taught),
        "requests_per_s": span(rates),
    }


def _rate(requests: Requests) -> float:
    took_s = (requests.sent_ns.max() - requests.sent_ns.min()) / 1e9
    return (len(requests) - 1) / took_s if took_s > 0 else 0.0


def _doubts(taught: Sequence[Taught], contradicted: float, servers: int) -> Iterable[str]:
    if contradicted > _DOUBTFUL:
        yield f"{contradicted:.1%} of the tokens contradict the steps found, which widens the band by as much"
    if servers < 2:
        yield "one server was measured: how far fresh ones differ is assumed, not measured"
    hits = [summary_of(each.run).metrics.get("prefix_hit_ratio") for each in taught]
    most = max((each.value for each in hits if each is not None and each.value is not None), default=0.0)
    if most > _DOUBTFUL:
        yield f"the server had {most:.0%} of prompt tokens in its prefix cache: tokens of prompts seem cheaper by that"
