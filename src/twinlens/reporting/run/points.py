"""Document of several runs: how many points are valid, a table for each lens and load, and what was found of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from twinlens.record.beside import SearchRecord
from twinlens.record.finding import Validity
from twinlens.record.run import Run
from twinlens.reporting.comparing.paired import paired_document, paired_of
from twinlens.reporting.display import MARKS, clean, join_names, legend
from twinlens.reporting.document.block import (
    DETAIL,
    Block,
    Brief,
    Document,
    Gap,
    Line,
    More,
    Notes,
    Row,
    Section,
    Title,
    Tone,
    row,
)
from twinlens.reporting.gate import agreement_of, gate_legend
from twinlens.reporting.load_kind import SERVED, LoadKind, verdict_of
from twinlens.reporting.machine import machines
from twinlens.reporting.paired import Paired, ratio_words, ratios_lead
from twinlens.reporting.point_name import point_names
from twinlens.reporting.run.grid import TablePart, absent_line, figures_table, parts_of, points_table, titles_of
from twinlens.reporting.run.next_step import next_step
from twinlens.reporting.run.one import TONES, finding_row, run_document
from twinlens.reporting.run.subject import subject, workload_words
from twinlens.reporting.search import outcome_words, search_document, search_interval, swept_point
from twinlens.reporting.text.column import GATE, column, other_columns, served_columns
from twinlens.reporting.text.equal_steps import at_equal_steps
from twinlens.reporting.text.first_lines import finding_lines, not_valid_words, said_of, verdict_words
from twinlens.reporting.text.fitted import CHARTS, EVERY
from twinlens.reporting.text.policies import HELD, HOLD_COLUMNS, WHY, choices, has_policies
from twinlens.reporting.view import LENSES, Material, each_once, given_twice, those_measured, why_not_valid
from twinlens.reporting.wording.finding import verdict_word
from twinlens.stats.metrics.definition import METRICS
from twinlens.stats.metrics.training import EQUAL_STEPS
from twinlens.stats.summary.group import Group, group

_REASONS, _FINDINGS = (4, 6, 7), (3, 6, 7)
"""The ranks of why points are not valid, and of findings, the gravest first; what follows is a detail."""
_NOTES, _LEGEND, _AIR = 6, 5, 8
_PLACES: dict[LoadKind, str] = {
    "rate": "rate: requests sent per second, on schedule (open loop).",
    "concurrency": "in flight: requests in flight; each answer starts the next request (closed loop).",
    "other": "due: the rate at which requests came.",
}
_SERVED_WORDS = (
    "TTFT and TPOT count from when each request was due, failures being slower than any answer. "
    "goodput: requests that met every limit; within SLO: their share."
)


def runs_document(material: Sequence[Material], searches: Sequence[SearchRecord] = ()) -> Document:
    """One run with its figures, or several as points. A run that is given twice is shown once, and a line says so."""
    given, again = each_once(material)
    measured, absent = those_measured(given)
    kept = at_equal_steps(measured)
    twice = [row("!", [sentence], "doubt") for sentence in given_twice(again)]
    if len(kept) == 1:
        alone = run_document(*kept[0])
        more = [block for each in searches for block in _search(each)]
        return replace(alone, blocks=(*twice, *alone.blocks, *more))
    lost = [row("!", [clean(sentence, 600)], "doubt") for sentence in absent]
    points = points_document(group(summary for _, summary in kept), kept, searches, _next(kept))
    return replace(points, blocks=(*twice, *points.blocks, *lost))


def points_document(groups: Sequence[Group], material: Sequence[Material] = (), searches: Sequence[SearchRecord] = (),
                    step: str = "") -> Document:  # fmt: skip
    """A table with a line a point. `material`: the runs of the points; `step`: what to try next."""
    runs = {run.id: run for run, _ in material}
    turns = paired_of(groups, list(runs.values()))
    return Document.of("Runs", verdict_words(groups, turns), _blocks(groups, material, turns, searches, step), "--all")


def _next(material: Sequence[Material]) -> str:
    """What to try with the first point that is not valid, or with the first."""
    run, summary = next((pair for pair in material if not pair[1].ranked), material[0])
    return next_step(run, summary, of_many=True)


def _blocks(groups: Sequence[Group], material: Sequence[Material], turns: Sequence[Paired],
            searches: Sequence[SearchRecord], step: str) -> Iterator[Block]:  # fmt: skip
    runs, parts = {run.id: run for run, _ in material}, parts_of(groups)
    shared, titles = titles_of(parts)
    tone: Tone = "" if all(group.ranked for group in groups) else "doubt"
    told = verdict_words(groups, turns)
    yield Brief(
        Line(f"{told}{not_valid_words(groups)}", tone, is_lead=True, short=told),
        Line(f"{told}{_labels(groups)}", tone, is_lead=True),
        _REASONS[0],
    )
    yield Line(shared)
    yield row("machines", machines(groups), rank=DETAIL)
    ratios: list[Block] = [*_ratios(turns), *_paired(turns)]
    leads = ratios_lead(groups, turns)
    yield from ratios if leads else ()
    for part, title in zip(parts, titles, strict=True):
        yield Gap(_AIR)
        yield Title(title)
        yield points_table(part, turns)
        yield from (replace(block, rank=DETAIL) for block in part_details(part, runs))
    yield Gap(_AIR)
    yield from () if leads else ratios
    yield from _searched(searches)
    reasons, others = _why(parts)
    yield from (*_ranked(reasons), *others)
    for place, line in enumerate(finding_lines(groups)):
        yield finding_row(said_of(line), line.severity == "disqualifies", _FINDINGS, place)
    yield Brief(Notes(), Notes(folded=True), _NOTES)
    # Where no point has any figure, the reasons above say all there is.
    shown = [estimate for part in parts for estimate in part.shown]
    absent = {label: why for part in reversed(parts) for label, why in reversed(part.absent)} if shown else {}
    yield absent_line(list(absent.items())[::-1], _NOTES)
    yield Line(" ".join(legend(shown)), "dim", _LEGEND)
    yield row("next", [step], "strong")
    yield More(EVERY, "more", CHARTS)
    firsts = {each.runs[0].run for each in groups}
    first = [pair for pair in material if pair[0].id in firsts]
    ran = dict.fromkeys(f"{subject(*pair)}; {workload_words(*pair)}" for pair in first)
    yield Section("What ran", tuple(map(Line, ran)))
    yield from (block for each in searches for block in _search(each))


def part_details(part: TablePart, runs: Mapping[str, Run]) -> Iterator[Block]:
    """What stands below the table of one part: what its heads mean, and figures that it has no room for."""
    groups, served = part.groups, part.load in SERVED
    yield Line(_legend(part), "dim")
    if not served:
        return
    yield Line(agreement_sentence(groups), "dim")
    if GATE in served_columns(groups) and not any(map(agreement_of, groups)):
        yield Line(f"Fidelity is not measured: {GATE.reason(groups[0])}.", "dim")
    if wanted := other_columns(groups):
        title = "Throughput, latency of the whole answer, and failures"
        yield Section(title, (figures_table(part, wanted, ""),))
    if has_policies(groups):
        yield Section(HELD, (figures_table(part, HOLD_COLUMNS, ""), Line(WHY, "dim")))
    yield from (row("→", [words], "strong") for words in choices(groups, runs))


def _legend(part: TablePart) -> str:
    groups = part.groups
    words = [_PLACES[part.load], _SERVED_WORDS] if part.load in SERVED else []
    if any(column.ids == ("retention",) for column in part.columns):
        words.append("of peak: sustained rate as a share of the peak rate.")
    if part.lens == "inference" and any(map(agreement_of, groups)):
        words.append(gate_legend(groups))
    losses = [loss for group in groups for run in group.runs if (loss := run.metrics.get("final_loss")) is not None]
    if any(EQUAL_STEPS in loss.method for loss in losses):
        words.append("loss: after as many steps as every point took.")
    return " ".join(words)


# One sentence on whether the server counted what its client counted, over all runs of a table.

_COUNTS = (
    ("tokens", "server_tokens_agreement"),
    ("requests", "server_requests_agreement"),
    ("mean TTFT from send", "server_ttft_agreement"),
)
_TOKENS = column("server_tokens_agreement")


def agreement_sentence(groups: Sequence[Group]) -> str:
    """The server's own figures in per cent of the client's: the range over the points that have them, or why none."""
    parts = []
    for name, key in _COUNTS:
        values = [group.metrics[key].value for group in groups if key in group.metrics]
        known = sorted(100 * value for value in values if value is not None)
        if known:
            low, high = (f"{bound:.4g}" for bound in (known[0], known[-1]))
            parts.append(f"{name} {low}%" if low == high else f"{name} {low}–{high}%")
    if parts:
        return f"The server's own figures, of the client's: {', '.join(parts)}."
    named = [name for name, key in _COUNTS if any(key in group.metrics for group in groups)]
    why = next((_TOKENS.reason(group) for group in groups if _TOKENS.ids[0] in group.metrics), "")
    return f"The server's own figures ({', '.join(named)}) are not measured: {why}." if named else ""


# Ratios of points that took turns.


def _ratios(turns: Sequence[Paired]) -> Iterator[Line]:
    """ "bf16 / fp32: 1.52× (1.44–1.59×) the tokens/s, valid (3 repeats)"; of each pair the first stays longest."""
    pairs = [(turn.result.above, turn.result.below) for turn in turns]
    firsts = 0
    for place, turn in enumerate(turns):
        first = pairs[place] not in pairs[:place]
        firsts += first
        rank = 2 if not first or firsts > 4 else 1 if firsts > 1 else 0
        metric = turn.result.metric
        yield Line(
            f"{clean(turn.result.above, 60)} / {clean(turn.result.below, 60)}: {ratio_words(turn)} the "
            f"{METRICS[metric].label if metric in METRICS else clean(metric, 30)}, "
            f"{turn.validity}{f': {turn.fault}' if turn.fault else ''} "
            f"({turn.result.repeats} repeat{'s' if turn.result.repeats != 1 else ''}).",
            "strong", rank,
        )  # fmt: skip


def _paired(turns: Sequence[Paired]) -> Iterator[Section]:
    """A table a lens; ratios that are not valid, or provisional, say why below."""
    for lens in LENSES:
        if mine := [pair for pair in turns if pair.group.lens == lens]:
            title, *blocks = paired_document(mine).blocks
            yield Section(title.text if isinstance(title, Title) else "", tuple(blocks))


# Searches for the highest load.


def _searched(searches: Sequence[SearchRecord]) -> Iterator[Line]:
    """ "Search, bf16: the highest within the SLO is [8, 8.9) requests/s (narrow: …)"."""
    for record in searches:
        for result in record.results:
            name = f", {swept_point(result)}" if swept_point(result) else ""
            interval = search_interval(result, record.search.unit)
            yield Line(f"Search{name}: the highest within the SLO is {interval} ({outcome_words(result)}).", "strong")


def _search(record: SearchRecord) -> Iterator[Block]:
    """The answer of each search, its SLO, and every run of it in order."""
    return (replace(each, rank=DETAIL) for each in search_document(record).blocks)


# Why points are not valid, or provisional.


def _ranked(rows: Sequence[Row]) -> Iterator[Row]:
    return (replace(each, rank=_REASONS[n] if n < len(_REASONS) else DETAIL) for n, each in enumerate(rows))


def why_rows(part: TablePart) -> list[Row]:
    """Why points of one table are not valid, or provisional."""
    reasons, others = _why([part])
    return [*reasons, *others]


def _why(parts: Sequence[TablePart]) -> tuple[list[Row], list[Row]]:
    """The reasons, those of one table with one verdict in one line, the worst first; then what else the others say."""
    alike: dict[tuple[bool, int, str], list[tuple[str, str]]] = {}
    for number, part in enumerate(parts):
        for member, name in zip(part.groups, point_names(part.groups), strict=True):
            if (reason := why_not_valid(member, verdict_word)) is not None:
                error = next((run.error for run in member.runs if run.error), "")
                why = f"{reason}: {clean(error, 300)}" if error else reason
                alike.setdefault((member.ranked, number, verdict_of(member)), []).append((name, why))
    rows: list[Row] = []
    others: list[Row] = []
    for (ranked, number, _), points in sorted(alike.items(), key=lambda each: each[0][:2]):
        model = f"{clean(parts[number].groups[0].model, 40)}, " if len(parts) > 1 else ""
        names = join_names([name for name, _ in points], 4)
        state: Validity = "provisional" if ranked else "not valid"
        words = f"{model}{names} {'is' if len(points) == 1 else 'are'} {points[0][1]}"
        rows.append(Row(MARKS[state], (words,), TONES[state]))
        others.extend(Row(MARKS[state], (f"{model}{name} is {why}",), TONES[state], DETAIL)
                      for name, why in points[1:] if why != points[0][1])  # fmt: skip
    return rows, others


def _labels(groups: Sequence[Group]) -> str:
    """ " Not valid: too short (6), unsteady (1)."; nothing where none is."""
    counts = Counter(verdict_of(group) for group in groups if not group.ranked)
    counted = ", ".join(f"{label} ({count})" for label, count in counts.most_common())
    return f" Not valid: {counted}." if counted else ""
