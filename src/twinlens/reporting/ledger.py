"""Words of a ledger, for its document and its charts: heads, cells, remarks, and what was not measured."""

from __future__ import annotations

from typing import TYPE_CHECKING

from twinlens.comparison.ledger import PER, Ledger, Step
from twinlens.comparison.verdict import Comparison
from twinlens.record.estimate import Estimate
from twinlens.reporting import display
from twinlens.reporting.comparison import first_effect, says_unit, short_name
from twinlens.reporting.wording.comparison import label_of
from twinlens.reporting.wording.finding import sentence_of

if TYPE_CHECKING:
    pass

LEGEND = "× before: ratio to the step above, with its interval; =?: the two cannot be told apart."


def step_names(ledger: Ledger) -> list[str]:
    """A name for each step, all different: "0 fp32", "1 bf16"."""
    return [f"{place} {short_name(step.side, 48)}" for place, step in enumerate(ledger.steps)]


def quantity_label(ledger: Ledger, name: str) -> str:
    """What a quantity is called on an axis: the label of the metric that stands for it, or the cost."""
    if name in ledger.metrics:
        return label_of(ledger.metrics[name])
    return "repays a month" if name == "repays" else _cost_head(ledger).replace("\n", " ")


def heads_of(ledger: Ledger) -> tuple[str, ...]:
    """The heads of the columns, of quantities that some step has."""
    known = ledger.metrics
    quantities = [
        label_of(known[name]).replace(" ", "\n") if name in known else _cost_head(ledger) for name in shown(ledger)
    ]
    repays = ["repays\na month"] if any(step.repays.value is not None for step in ledger.steps) else []
    return ("step", "changed", *quantities, *repays, "× before", "interval")


def shown(ledger: Ledger) -> list[str]:
    """The quantities that at least one step has."""
    steps = ledger.steps
    return [name for name in steps[0].figures if any(step.figures[name].value is not None for step in steps)]


def cells_of(ledger: Ledger, step: Step) -> tuple[str, ...]:
    """One line of the ledger."""
    figures = [figure_words(ledger, name, step.figures[name]) for name in shown(ledger)]
    if any(each.repays.value is not None for each in ledger.steps):
        figures.append(display.bare(step.repays))
    mark = display.doubt_mark(step.side.group.validity)
    return (f"{mark}{short_name(step.side, 26)}", changed(step), *figures, *_ratio(step.before))


def changed(step: Step) -> str:
    """What the step changed, in words: "precision", "batching and runtime"."""
    if step.before is None:
        return "baseline"
    return " and ".join(thing.aspect for thing in step.before.things) or "nothing known"


def remarks_of(ledger: Ledger) -> list[str]:
    """What stands against each step, the gravest first; each sentence once."""
    said = []
    for number, step in enumerate(ledger.steps):
        findings = step.before.findings if step.before else ()
        told = [each for each in findings if each.severity != "notes"]
        # Each step is B against the one above; that the one above is not valid was said there.
        told = [each for each in told if number == 1 or each.numbers.get("side") != "A"]
        said += [f"Step {number}: {sentence_of(each)}" for each in told]
    return said


def missing_words(ledger: Ledger) -> list[str]:
    """ "not measured: energy/request (no energy counter is readable)", and money that was not asked for."""
    absent = [name for name in ledger.steps[0].figures if name not in shown(ledger)]
    return [
        f"{'not measured' if name in ledger.metrics else 'not given'}: "
        f"{label_of(ledger.metrics[name]) if name in ledger.metrics else 'cost'} "
        f"({display.absence(ledger.steps[0].figures[name], counted=False)})"
        for name in absent
    ]


def load_words(ledger: Ledger) -> str:
    """ "one workload at 8 requests/s (12ab…)"; of a closed loop that each step is at its own load, and at which."""
    steps = ledger.steps
    if steps[0].side.lens == "training":
        return f"one workload ({ledger.workload})"
    if ledger.at_one_load:
        rate = steps[0].load.get("rate_per_s")
        return f"one workload at {f'{rate:g} requests/s' if rate else 'the same arrivals'} ({ledger.workload})"
    return f"one workload ({ledger.workload}), each step at its own throughput"


def latency_words(ledger: Ledger) -> str:
    """That latencies are not compared, and at which throughput each was; "" where all are at one load."""
    if ledger.at_one_load:
        return ""
    rates = [figure_words(ledger, "throughput", step.figures["throughput"]) for step in ledger.steps]
    return (
        f"{label_of(ledger.metrics['latency'])} is at each step's own load ({', '.join(rates)} "
        f"{label_of(ledger.metrics['throughput'])}) and not compared; for latency at one throughput, measure all steps "
        "at one rate_per_s"
    )


def _cost_head(ledger: Ledger) -> str:
    what = "inferences" if ledger.steps[0].side.lens == "inference" else "tokens"
    return f"cost/{PER:,.0f}\n{what}"


def figure_words(ledger: Ledger, name: str, estimate: Estimate) -> str:
    """A figure with its unit, unless the head of its column says it."""
    is_said = name not in ledger.metrics or says_unit(label_of(ledger.metrics[name]), estimate.unit)
    return display.bare(estimate) if is_said else display.value(estimate)


def _ratio(against: Comparison | None) -> tuple[str, str]:
    if against is None:
        return "", ""
    effect = first_effect(against)
    if effect is None or effect.ratio.value is None:
        return display.ABSENT, display.ABSENT
    told = "" if effect.apart else " =?"
    return f"{display.factor(effect.ratio)}{told}", display.factor_bounds(effect.ratio) or display.ABSENT


def in_all_words(ledger: Ledger) -> str:
    """The effect of all steps together: "all steps together: output tokens/s: B is 3.8× A"."""
    last = ledger.last
    left_out = [str(place) for place, step in enumerate(ledger.steps) if step.fails_fidelity]
    words = _together(last, "last" if last is ledger.steps[-1] else "last faithful")
    if not left_out:
        return words
    which = (
        f"Step {left_out[0]} fails its" if len(left_out) == 1 else f"Steps {display.join_names(left_out)} fail their"
    )
    return f"{words} {which} quality check and count{'s' if len(left_out) == 1 else ''} in no total."


def _together(last: Step, which: str) -> str:
    effect = first_effect(last.baseline) if last.baseline else None
    if effect is None or effect.ratio.value is None:
        return f"The {which} step has no ratio to the baseline."
    bounds = display.factor_bounds(effect.ratio)
    size = f"{display.factor(effect.ratio)} ({bounds or 'no interval'})"
    if effect.apart:
        return f"All steps together: {size} the {label_of(effect.metric)} of the baseline."
    metric = label_of(effect.metric)
    return f"All steps together: the {which} step cannot be told apart from the baseline in {metric} ({size})."
