"""Sentences on saves, on what was read back from them, and on a rank that was killed."""

from __future__ import annotations

from twinlens.record.finding import Finding
from twinlens.reporting.wording.number import numbers
from twinlens.units import SECONDS, show

_RESUMED = {"recovery": "after the kill", "restore": "from the newest save once the rows were taken"}


def _few(finding: Finding) -> str:
    saves, every = numbers(finding, "saves", "every_steps")
    held = "no save" if not saves else "one save"
    return (
        f"The steady window holds {held}, so the sustained rate does not hold what saves cost: one is due every "
        f"{every} steps. Measure for longer, or save more often."
    )


def _killed(finding: Finding) -> str:
    rank, at_step, seconds = numbers(finding, "rank", "at_step", "seconds")
    from_step, restarts = numbers(finding, "from_step", "restarts")
    saved = f"the save of step {from_step}" if from_step else "the beginning, as no save was whole"
    return (
        f"Rank {rank} was killed in step {at_step}, as asked. Training went on from {saved} after "
        f"{show(seconds, SECONDS)}, with {restarts} restart{'s' if restarts != 1 else ''}. Rates leave this out; the "
        "goodput holds it."
    )


def _equal(finding: Finding) -> str:
    steps, worst, tolerance = numbers(finding, "steps", "worst", "tolerance")
    return (
        f"Steps done again {_RESUMED[finding.subject]}: {steps}; their losses are {worst:.1e} from the first time at "
        f"most, relatively; {tolerance:g} is allowed."
    )


def _differs(finding: Finding) -> str:
    steps, tolerance = numbers(finding, "steps", "tolerance")
    worst, unknown = finding.numbers.get("worst"), finding.numbers.get("unknown", 0)
    off = [] if worst is None else [f"a loss is {worst:.1e} from the first time ({tolerance:g} is allowed)"]
    if unknown:
        off.append(f"in {unknown} of them a loss is absent or not finite")
    return (
        f"Training does not go on as it was: over {steps} steps done again {_RESUMED[finding.subject]} "
        f"{' and '.join(off)}."
    )


def _unreached(finding: Finding) -> str:
    at_step, steps = numbers(finding, "at_step", "steps")
    return (
        f"No rank was killed: the run ended after {steps} steps and protocol.kill.at_step is {at_step}. Measure for "
        "longer, or kill earlier."
    )


SENTENCES = {
    "few-saves": _few,
    "rank-killed": _killed,
    "resumed-equal": _equal,
    "resumed-differs": _differs,
    "resumed-not-compared": lambda finding: (
        f"No step was done again {_RESUMED[finding.subject]}, so nobody knows whether training goes on as it was: "
        "let a step lie between the save and the end or the kill."
    ),
    "kill-not-reached": _unreached,
    "saves-in-memory": lambda finding: (
        f"Saves went to a file system in memory ({finding.subject}), which is no storage; name another as "
        "workload.checkpoint.folder."
    ),
}
