"""A diagnosis on one screen: what binds, where the time goes, the four counters, what to try."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Group as Stack
from rich.console import RenderableType
from rich.text import Text

from twinlens.diagnosis.counter import Counter
from twinlens.diagnosis.diagnosis import Diagnosis
from twinlens.record.run import Run
from twinlens.reporting import display
from twinlens.reporting.screen.subject import subject
from twinlens.reporting.text.fitted import Fitted, FittedTable, shortest
from twinlens.reporting.text.footnote import hanging, left_out
from twinlens.reporting.view import Entry
from twinlens.reporting.wording.diagnosis import agreement_words, counter_name, counter_words, part_words
from twinlens.reporting.wording.finding import advice_of, clause_of, sentence_of
from twinlens.stats.summary.group import Summary
from twinlens.units import SECONDS, show

_MORE = "--all: every finding; explain CODE: what it means; --json: every number"
_TERSE = ((5, 1), (4, 0), (3, 0), (2, 0), (1, 0), (0, 0))
_MOST_POINTS, _MOST_ADVICE = 12, 4


def diagnoses_screen(found: Sequence[tuple[Entry, Diagnosis]]) -> RenderableType:
    """One point by itself, or a line for each of several; at most 24 lines at 80 columns."""
    if len(found) == 1:
        ((entry, only),) = found
        return diagnosis_screen(only, subject(*entry.material[0]))
    return _points(found)


def diagnosis_screen(found: Diagnosis, head: str) -> RenderableType:
    """At most 24 lines at 80 columns. `head`: what was diagnosed, in words."""
    return Fitted(lambda width: shortest(_choices(found, head), width))


def _points(found: Sequence[tuple[Entry, Diagnosis]]) -> RenderableType:
    """One line for each, with what binds it, how many of its repeats alone say so, and what to try."""
    rows = tuple(tuple(map(Text, _line(entry, each))) for entry, each in found[:_MOST_POINTS])
    left = len(found) - len(rows)
    advice: dict[str, list[str]] = {}
    for _, each in found:
        advice.setdefault(advice_of(each.verdict), []).append(each.verdict.code)
    tried = [(words, f"{codes[0]}: ") for words, codes in advice.items() if codes[0] != "indeterminate"]
    return Stack(
        FittedTable(("lens", "point", "verdict", "of", "confidence", "runs"), ("left",) * 6, rows, gap=1).table(),
        *left_out(left, "point", "--json"),
        *(hanging("try  ", code + words, "") for words, code in tried[:_MOST_ADVICE]),
        hanging("", "diagnose RUN with one run folder: its time, counters and findings", "dim"),
    )


def _line(entry: Entry, found: Diagnosis) -> tuple[str, ...]:
    repeats, agree = (found.verdict.numbers.get(name) for name in ("repeats", "agree"))
    runs = str(len(entry.material)) if repeats is None else f"{agree} of {repeats} say so"
    name = display.clean(entry.name, 28)
    return entry.group.lens, name, found.verdict.code, found.verdict.subject, _confidence(found), runs


def _choices(found: Diagnosis, head: str) -> Iterator[RenderableType]:
    others = [each for each in found.phases if each != found.verdict]
    for most, air in _TERSE:
        yield Stack(
            hanging("", head, "bold"),
            hanging("► ", _headline(found), "bold"),
            *(hanging("  ", sentence_of(each), "") for each in others if air or each.code != "indeterminate"),
            *[Text("")] * air,
            *_time(found),
            *[Text("")] * air,
            *(_counter(each) for each in found.counters),
            hanging("scale  ", clause_of(found.scaling), ""),
            *_narrower(found, 1 + air),
            *[Text("")] * air,
            *(hanging("! " if each.severity == "warns" else "· ", sentence_of(each), "")
              for each in found.findings[:most]),
            *left_out(len(found.findings) - most, "finding"),
            hanging("try    ", advice_of(found.verdict), "bold"),
            *(_tried(found, 1 + air) if most else []),
            hanging("more   ", _MORE, "dim"),
        )  # fmt: skip


def diagnosis_whole(run: Run, summary: Summary, found: Diagnosis) -> RenderableType:
    """Every finding and every sentence, however long."""
    others = [each for each in found.phases if each != found.verdict]
    return Stack(
        hanging("", subject(run, summary), "bold"),
        hanging("► ", _headline(found), "bold"),
        *(hanging("  ", sentence_of(each), "") for each in others),
        Text(""),
        *_time(found),
        Text(""),
        *(_counter(each) for each in found.counters),
        Text(""),
        hanging("scale  ", sentence_of(found.scaling), ""),
        *(hanging("bits   ", sentence_of(each), "") for each in found.quantising),
        *(hanging("ends   ", sentence_of(each), "") for each in found.region),
        Text(""),
        *(hanging("! " if each.severity == "warns" else "· ", sentence_of(each), "") for each in found.findings),
        hanging("try    ", advice_of(found.verdict), "bold"),
        *(hanging("tried  ", clause_of(each), "") for each in found.tried),
        hanging("more   ", "explain CODE: what it means and when it is wrong; --json: every number", "dim"),
    )


def _narrower(found: Diagnosis, most: int) -> list[RenderableType]:
    """Narrower precisions, those that were measured first."""
    told = sorted(found.quantising, key=lambda each: "measured" not in each.evidence)
    clauses = "; ".join(clause_of(each) for each in told[:most])
    left = f"; {len(told) - most} more: --all" if len(told) > most else ""
    return [hanging("bits   ", clauses + left, "")] if told else []


def _tried(found: Diagnosis, most: int) -> list[RenderableType]:
    """Remedies that others beside it have, with what they gave."""
    clauses = "; ".join(clause_of(each) for each in found.tried[:most])
    left = f"; {len(found.tried) - most} more: --all" if len(found.tried) > most else ""
    return [hanging("tried  ", clauses + left, "")] if found.tried else []


def _time(found: Diagnosis) -> list[RenderableType]:
    """ "a step takes 333 ms: forward 32 %, backward 61 %, …, unattributed 0.1 %"; the shares add up to 100 %."""
    partition = found.partition
    if partition.reason is not None:
        return [hanging("time   ", f"no parts: {partition.reason}", "")]
    parts = ", ".join(f"{part_words(name)} {100 * partition.share(name):.1f} %" for name in partition.parts)
    return [hanging("time   ", f"a {partition.unit} takes {show(partition.seconds, SECONDS)}: {parts}", "")]


def _counter(counter: Counter) -> RenderableType:
    known = counter.value.value is not None
    sure = f"; confidence {counter.confidence}" if known else ""
    return hanging(f"{counter_name(counter):<22}", f"{counter_words(counter)}{sure}", "" if known else "dim")


def _confidence(found: Diagnosis) -> str:
    return display.clean(found.verdict.numbers.get("confidence", "low"), 20)


def _headline(found: Diagnosis) -> str:
    words = agreement_words(found)
    return f"{sentence_of(found.verdict)} Confidence: {_confidence(found)}{f' ({words})' if words else ''}."
