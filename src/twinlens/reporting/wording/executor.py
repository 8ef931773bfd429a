"""Sentences on the executor that a reader needs beside the numbers."""

from __future__ import annotations

from twinlens.record.finding import Finding
from twinlens.reporting.wording.number import number, numbers
from twinlens.units import BYTES, NATS, SECONDS, show

_RESULTS = {
    "embed": ("one vector", "vectors"),
    "rerank": ("one finite score", "finite scores"),
    "classify": ("a row of class scores", "rows of class scores"),
}


def _random_weights(finding: Finding) -> str:
    return (
        f"{finding.subject} has random weights made from its config: speed and memory do not depend on their values, "
        "but fidelity figures say how the arithmetic differs, not what a trained model would lose."
    )


def _fidelity_not_compared(finding: Finding) -> str:
    needed, device = numbers(finding, "needed_bytes", "device")
    return (
        f"Fidelity was not measured: the fp32 weights to compare with ({needed / 1e9:.0f} GB) do not fit into the "
        f"free memory of {device}, so the model was made in 16 bits."
    )


def _layers_left_wide(finding: Finding) -> str:
    layers, sizes, need_in, need_out = numbers(finding, "layers", "sizes", "divide_in", "divide_out")
    return (
        f"{layers} linear layers stay in bf16 ({', '.join(sizes)}): the {finding.subject} kernel needs inputs that "
        f"divide by {need_in}" + (f" and outputs by {need_out}." if need_out > 1 else ".")
    )


def _launch_bound(finding: Finding) -> str:
    took_s, busy_s = numbers(finding, "took_s", "busy_s")
    return (
        f"Launch-bound: one {finding.subject} takes {1e3 * took_s:.2f} ms, its kernels only {1e3 * busy_s:.2f} ms, so "
        'the run measures how fast the processor launches kernels; executor.options.graph = "compiled" captures them.'
    )


def _compiled(finding: Finding) -> str:
    took_s = number(finding, "took_s")
    return f"Compiling took {took_s:.1f} s before the first row; counted FLOP are those of the same model run eagerly."


def _exported(finding: Finding) -> str:
    seconds, size = numbers(finding, "seconds", "size_bytes")
    return (
        f"The model was exported in {seconds:.1f} s to {show(float(size), BYTES)}, once, before the first row; "
        "later runs of the same weights read that export."
    )


def _as_shipped(finding: Finding) -> str:
    seen = ", ".join(f"{name} {word}" for name, word in finding.numbers.items() if word)
    left = ", ".join(name for name, word in finding.numbers.items() if not word)
    said = f"As shipped: the precision names the stored weights; the runtime itself took {seen or 'formats not seen'}."
    return f"{said} Not seen: {left}." if left else said


def _operators_elsewhere(finding: Finding) -> str:
    operators, share = numbers(finding, "operators", "share")
    named = ", ".join(map(str, operators))
    return f"{share:.1%} of the time went to operators that {finding.subject} does not run: {named}."


def _one_answer(finding: Finding) -> str:
    task, items = numbers(finding, "task", "items")
    one, many = _RESULTS[str(task)]
    width = f" of {finding.numbers['width']:,} finite numbers" if "width" in finding.numbers else ""
    results = f"{one}{width}" if items == 1 else f"{items:,} {many}{' each' if width else ''}{width}"
    sent = f" Images are sent as {finding.numbers['sent']}." if "sent" in finding.numbers else ""
    return f"Each answer comes in one piece, so it has no TTFT and no TPOT; it counts only if it holds {results}.{sent}"


def _data_from_files(finding: Finding) -> str:
    files, size, step, workers = numbers(finding, "files", "size_bytes", "step_bytes", "workers")
    origin, pages, digest = numbers(finding, "origin", "pages", "sha256")
    who = f"{workers} workers ahead of the loop" if workers else "the loop itself"
    held = (
        "were in the page cache when training began, so storage is not in the figures"
        if pages == "warm"
        else "were dropped from the page cache before the first row, and are in it again once each was read"
    )
    whose = "made here" if origin == "made" else "yours"
    return (
        f"Data is read from {files:,} file{'s' if files != 1 else ''} of {show(float(size), BYTES)} ({whose}, sha256 "
        f"{str(digest)[:12]}) by {who}, {show(float(step), BYTES)} a step. They {held}."
    )


def _replayed(finding: Finding) -> str:
    run, recorded = numbers(finding, "run", "recorded_utc")
    return f"Replayed from {run}, recorded {recorded}; nothing was measured again."


def _length_forced(finding: Finding) -> str:
    asked = "Requests carry ignore_eos and min_tokens, which ask for answers of the full length"
    if finding.numbers.get("heeded") is False:
        return f"{asked}, but the server accepts and ignores these fields: a short answer counts as cut off."
    return f"{asked}; an answer that ends sooner counts as cut off."


def _launcher_untried(finding: Finding) -> str:
    return (
        f"The launcher of {finding.subject} was tested on recorded output only: check its flags and facts against "
        "the log."
    )


def _one_rank(finding: Finding) -> str:
    ranks = number(finding, "ranks")
    if "split" in finding.numbers:
        return (
            f"The loop ran on {ranks} ranks, {number(finding, 'split')} of which compute each layer together. Rank 0 "
            "alone was recorded: its samples are theirs, FLOP and memory its own share, and energy is not known."
        )
    return f"The loop ran on {ranks} ranks, and rank 0 alone was recorded: rates count its own samples, not the job's."


def _without_gradient(finding: Finding) -> str:
    count, steps = numbers(finding, "with", "steps")
    return (
        f"In {count:,} of {steps:,} steps the model also ran without gradients (generation, or an evaluation): that "
        "time is in the step and in no phase."
    )


def _from_weights(finding: Finding) -> str:
    which, loss_nats = numbers(finding, "hash", "loss_nats")
    return (
        f"Training begins with the weights of {finding.subject} (hash {which}), whose loss on the first held-out batch "
        f"is {show(float(loss_nats), NATS, 4)}."
    )


def _shape_unknown(finding: Finding) -> str:
    return (
        f"Theory does not know models of type {number(finding, 'type')}, and {finding.subject} ran all the same: its "
        f"{int(numbers(finding, 'parameters')[0]):,} parameters were counted, and shares of ceilings are absent."
    )


def _adapter_cost(finding: Finding) -> str:
    share, longer = finding.evidence["share"], finding.evidence["longer"]
    by = "" if longer.value is None else f" ({show(longer.value, SECONDS)})"
    if share.low is None or share.high is None:
        ends = "no interval"
    else:
        ends = f"{100 * share.low:+.0f} to {100 * share.high:+.0f} %"
    told = "" if number(finding, "apart") else "; no difference can be told"
    return (
        f"An adapter beside the weights makes a token {100 * (share.value or 0.0):+.0f} % longer{by} than one merged "
        f"into them: {ends}{told}."
    )


SENTENCES = {
    "adapter-cost": _adapter_cost,
    "from-weights": _from_weights,
    "shape-unknown": _shape_unknown,
    "one-rank-of-many": _one_rank,
    "passes-without-gradient": _without_gradient,
    "on-cpu": lambda finding: f"This run is on the CPU: {number(finding, 'reason')}.",
    "random-weights": _random_weights,
    "weights-expanded": lambda finding: (
        f"The weights of {finding.subject} are stored in {number(finding, 'stored')}; they were expanded to 16 or 32 "
        "bits before the run made its own precision of them, so its speed is not that of the released format."
    ),
    "random-weights-served": lambda finding: (
        "The weights are random: speed is that of trained weights of this shape, but answers mean nothing and loop, "
        "so speculation looks better than it is."
    ),
    "fp8-eager": lambda finding: (
        'Eager fp8 training casts slower than it multiplies: set executor.options.graph = "compiled".'
    ),
    "fp16-emulated": lambda finding: "fp16 on this CPU is emulated: expect it to be slower than fp32.",
    "fidelity-not-compared": _fidelity_not_compared,
    "layers-left-wide": _layers_left_wide,
    "launch-bound": _launch_bound,
    "compiled-first": _compiled,
    "exported": _exported,
    "as-shipped": _as_shipped,
    "operators-elsewhere": _operators_elsewhere,
    "fake-executor": lambda finding: "A fake executor: times come from formulas, not from hardware.",
    "replayed": _replayed,
    "length-free": lambda finding: (
        "The model chooses the length of each answer: received tokens count, and another server may do other work."
    ),
    "length-forbidden": lambda finding: (
        "The server forbids forced lengths: an answer that ends by itself before its limit counts as cut off."
    ),
    "length-forced": _length_forced,
    "no-usage-streamed": lambda finding: (
        "The server sends no usage while it streams: tokens are counted by chunks, or by the limit reached."
    ),
    "data-from-files": _data_from_files,
    "one-answer": _one_answer,
    "no-kernel-stamps": lambda finding: (
        "The kernel gives no receive timestamps here: times are taken when the client reads."
    ),
    "page-silent": lambda finding: (
        f"The server did not answer {finding.subject} in time: facts from that page are missing in its record."
    ),
    "launcher-untried": _launcher_untried,
}
