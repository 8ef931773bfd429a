"""Sentences of advice, one for each code, and for each cause of disturbance. `twinlens explain CODE` says more."""

from __future__ import annotations

from twinlens.diagnosis.diagnosis import RULES

_LONGER = "Measure longer: raise protocol.duration_s."
_QUIET = "Stop other programs, or compare in pairs with protocol.pairing."
_LOG = "Read the server's log: server.log in the run folder of a launched one."
_CLIENT = "Give the client more processors or processes (--set executor.options.clients=auto), or offer less."
_CLOCK = "Lock the clock, cool the machine, or measure longer."
_CHECK = "Turn off the server's cache of answers, or find out why it answers otherwise under load."

ADVICE = {
    # steadiness
    "no-rows": "Read the error of the run, and measure it again.",
    "too-short": _LONGER,
    "level-too-short": _LONGER,
    "few-answers": "Measure longer, and read why the other requests failed.",
    "shorter-than-stays": _LONGER,
    "cyclic": "Look for work that comes at fixed times (a cleaner, a sampler, a checkpoint), and measure many cycles.",
    "no-level": _QUIET,
    "wanders": _LONGER,
    "unproven": "Measure longer (four times the rows halve what can hide), or on a quieter machine.",
    "slowdown": "Look at clocks, heat and memory from that row on; the causes name what went with it.",
    "drift": "Measure longer, until the level holds; look for heat, fragmentation, and a cache that fills.",
    "left-its-level": _QUIET,
    "disturbed": _QUIET,
    "change-unseen": "Measure longer (four times the rows halve what can hide), or on a quieter machine.",
    "extended": "Raise protocol.duration_s so that runs settle at the first time, and set protocol.extend = 0.",
    "rows-scatter": "Pin the clock and the threads, and stop other programs.",
    "retaken": "Nothing, or protocol.retakes = 0 to see the machine as it is.",
    "given-twice": "Nothing; to have repeats, measure again.",
    # scale out or optimise
    "scale-out": "Add a device, and measure the same load on both: a replica does not shorten a request.",
    "optimise-first": "Optimise first: the findings above say where, largest headroom first.",
    "optimise-and-scale-out": "Add a replica for the queue, and shorten the time between tokens.",
    "neither-needed": "Find where that ends: --at rate_per_s=search.",
    "good-for": "Read its region of validity: twinlens diagnose RUN --all.",
    "inadequate-for": "Relieve what limits it, or take an executor that has more of it.",
    "fitness-unknown": "Measure it again until it is ranked.",
    "training-state": "Shard it, use an adapter, or take a device with more memory.",
    "kernels-differ": "Take the server's own figures for its kernels: its metrics page, or a profiler.",
    "no-kernel-share": "Compare the two runtimes instead: twinlens compare ENGINE SERVED.",
    "region-ends": "Measure on the other side of it before concluding anything there.",
    "quantise-latency": "Measure it beside this precision: [sweep] precision, and read its fidelity gate.",
    "quantise-memory": "Use it for memory only; for time, raise the batch or take a narrower format to multiply in.",
    "quantise-unclear": "Measure it beside this precision: [sweep] precision.",
    "scaling-undecided": "Measure what is missing, then diagnose again.",
    # requests and the server
    "overload": "Offer less, or search for the highest rate within the SLO: --at rate_per_s=search.",
    "failing": "Read the server's log and the error column of the rows; then mend it, or offer less.",
    "requests-failed": "Read the reasons: HTTP 429 and 503 are a server that sheds load.",
    "mostly-failed": "Read the server's log and the error column of the rows; then mend it, or offer less.",
    "server-died": _LOG,
    "slo-missed": "Offer less, or search for the highest rate within the SLO: --at rate_per_s=search.",
    "slo-unclear": "Measure longer: a quantile of 99 % needs some hundreds of requests.",
    "empty-slots": "Take longer slices: twice the protocol.slice_s halves the share.",
    "trace-rows-left-out": "Complete the rows of the trace, or leave them out of it.",
    "prefix-below-block": "Take a prefix of several blocks: raise workload.prefix.tokens.",
    "counts-disagree": "Measure a server that nobody else asks.",
    "first-tokens-disagree": "Measure near the server, and one that nobody else asks.",
    "server-metrics-not-read": "Turn the server's metrics page on, or name it: executor.options.metrics_url.",
    "server-readings-failed": "Read less often: raise protocol.telemetry_s.",
    "server-restarted": _LOG,
    "server-read-no-further": "Measure again; the rows of the client are whole.",
    # the client
    "client-limit": _CLIENT,
    "client-lost": "Find out why the client ended, and measure again.",
    "client-stood-still": "Keep the client running: nothing may stop it, and no other work be on its processors.",
    "client-loaded": _CLIENT,
    "sent-late": _CLIENT,
    "arrivals-late": _CLIENT,
    "read-late": _CLIENT,
    "chunks-merged": _CLIENT,
    "rate-off-plan": _CLIENT,
    "gaps-off-plan": _CLIENT,
    "arrivals-in-bursts": _CLIENT,
    "not-calibrated": "Measure with this version, which calibrates the client before each run.",
    "read-late-stamped": _CLIENT,
    # the machine
    "cause": "Stop the other programs, cool or unlock the clock, add memory; or compare in pairs: protocol.pairing.",
    "no-cause-found": "Sample more often (protocol.telemetry_s) and look at the timeline in the report.",
    "shared-machine": _QUIET,
    "throttled": "For heat, look at the cooling; for the power cap, compare power.limit_w between machines.",
    "clock-moves": _CLOCK,
    "still-warming": "Measure longer: duration_s = 900 and steady_s = 600 on an accelerator.",
    # what ran, and how good it is
    "precision-differs": "Declare the format that ran, or take a precision that the model's layers support.",
    "fidelity-failed": "Take the next wider precision, or trained weights.",
    "out-of-tolerance": "Take the next wider precision, or trained weights.",
    "guard-failed": _CHECK,
    "diverged": "Lower the learning rate, clip gradients, or take bf16, which reaches as far as fp32.",
    "target-missed": "Train longer, or ask for a loss that this model can reach on this data.",
    "impossible-share": "Measure again on a quiet machine: the ceiling was disturbed, or the data lay in a cache.",
    "ceiling-moved": "Measure again on a quiet machine, with clocks that hold; repeats show how far shares scatter.",
    "steps-skipped": "If they go on, lower the learning rate or take bf16, which needs no loss scale.",
    # what the executor says of itself
    "on-cpu": 'Do what the sentence says, or set executor.device = "cpu" to choose it.',
    "random-weights": "Give a folder with trained weights as workload.model where quality matters.",
    "random-weights-served": "Give a folder with trained weights as workload.model where answers matter.",
    "fp8-eager": 'Set executor.options.graph = "compiled".',
    "fp16-emulated": "Take bf16 on this CPU.",
    "fidelity-not-compared": "Free memory on the device, or take a smaller model.",
    "layers-left-wide": "Nothing, or a model whose layers have such sizes.",
    "launch-bound": 'Set executor.options.graph = "compiled", or a larger batch.',
    "operators-elsewhere": "Take a precision or a model whose operators this provider has.",
    "not-streamed": "Take a server or a path that streams.",
    "no-usage-streamed": "Turn on usage in streamed answers at the server (stream_options.include_usage).",
    "page-silent": "Measure again when the server has less to do.",
    "launcher-untried": "Compare the record of the run with the server's log.",
    # ratios by turns
    "few-rounds": "Measure longer, or take shorter slices: protocol.slice_s.",
    "ratio-drifts": _LONGER,
    "drift-unseen": _LONGER,
    # comparisons
    "side-not-ranked": "Read why that side is not ranked (twinlens show), mend it, and measure it again.",
    # searches
    "search-unclear": "Measure longer at each value: raise protocol.duration_s.",
    "search-budget": "Raise search.most_points.",
    "search-seconds-spent": "Raise search.budget_s.",
    "search-client-limit": _CLIENT,
    "search-run-failed": "Mend what the error names, and run the search again: it goes on.",
    "search-none": "Lower search.least, or loosen the SLO.",
    "search-all": "Raise search.most.",
    # diagnosis
    "compute-bound": "Take a narrower format, or do less arithmetic; a larger batch gives little.",
    "bandwidth-bound": "Move fewer bytes: narrower weights, or more sequences for each read of them.",
    "latency-bound": "Compile, fuse small operations, or raise the batch; a faster device gives little.",
    "interconnect-bound": "Overlap communication with the backward pass, or send fewer bytes.",
    "input-bound": "Add workers that load data, or prepare it beforehand.",
    "host-bound": "Shorten what the host does between computations; look at tokenising and HTTP.",
    "queue-bound": "Offer less, or add replicas.",
    "already-tried": "Take the setting that gave most, and diagnose that run.",
    "falsifier-tried": "Where it is refuted, measure the run again, with ceilings, on a quiet machine.",
    "capacity-bound": "Give the KV cache more memory, or store it in a narrower format.",
    "indeterminate": "Read the findings: each says what is missing.",
    **{rule.code: rule.remedy for rule in RULES},
}
_OTHERS = "Stop the other programs; ratios survive them: --set protocol.pairing=slices."
_GPU_CLOCK = "Cool the accelerator, or raise its power limit."
OF_CAUSE = {
    "other-programs": _OTHERS,
    "steal": _OTHERS,
    "quota": "Give the container more processor time.",
    "clock": "Fix the processor's clock, or cool it.",
    "gpu-clock": _GPU_CLOCK,
    "throttling": _GPU_CLOCK,
    "temperature": "Cool the machine, or warm it up for longer before the run.",
    "swapping": "Free memory, so that nothing is swapped.",
    "page-faults": "Free memory, so that pages stay in it.",
    "storage": "Keep the data in memory.",
    "garbage-collection": "Keep fewer objects in the measuring process.",
    "compile": "Compile before the run, or measure longer.",
}
"""Advice against each source of a `cause`."""
