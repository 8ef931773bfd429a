"""The page of `plan choose`: each ranking drawn with its bands, what follows from both, and every reason."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from twinlens.planning.choose.answer import Choice
from twinlens.planning.choose.candidate import Candidate, Ranking
from twinlens.planning.figure import Figure
from twinlens.record.finding import Finding
from twinlens.reporting.chart.figure import Figure as Chart
from twinlens.reporting.chart.plan_bars import plan_bars
from twinlens.reporting.display import clean
from twinlens.reporting.html.plan_page import PlanPage, PlanTable
from twinlens.reporting.screen.plan_choose import asked_words, cells, doubtful, models, slopes
from twinlens.reporting.screen.plan_offer import priced_words, sold_words
from twinlens.reporting.wording.finding import clause_of
from twinlens.reporting.wording.plan_choose import UNMOVED

_DRAWN = 12


def choose_page(answer: Choice, notes: Sequence[Finding] = ()) -> PlanPage:
    """What the page of one choice shows."""
    charts = (_bars(each) for each in answer.rankings)
    tables = [table for each in answer.rankings for table in _tables(each)]
    first = [each.candidates[0] for each in answer.rankings]
    return PlanPage(
        "choose",
        asked_words(answer),
        tuple(_sentence(clause_of(each)) for each in (answer.branch, answer.system) if each is not None),
        tuple(figure for each in first for figure in _figures(each)),
        tuple(each for each in charts if each is not None),
        tuple(tables),
        (
            *(f"models, {each}" for each in models(answer)),
            *(f"unverified, {each}" for each in doubtful(notes)),
            *(f"sold, {each}" for each in sold_words(answer)),
            *(f"price, {each}" for each in priced_words(answer)),
            f"tokens/s by 10 % more of one row of the datasheet: {'; '.join((*slopes(answer), UNMOVED))}",
            *(f"fast link, {clause_of(each)}" for each in answer.links),
            *(f"data-centre card, {clause_of(each)}" for each in answer.cards),
            *(f"cluster, {clause_of(each)}" for each in answer.cluster),
            *(clause_of(each) for each in answer.left_out),
        ),
        tuple(notes),
    )


def _figures(each: Candidate) -> Iterator[Figure]:
    yield from (each.rate, *each.times)
    if each.offer.power is not None:
        yield each.offer.power
    yield each.offer.million


def _sentence(clause: str) -> str:
    return f"{clause[:1].upper()}{clause[1:]}."


def _bars(ranking: Ranking) -> Chart | None:
    shown = ranking.candidates[:_DRAWN]
    bars = [(_name(each), each.rate) for each in shown]
    tied = sum(each.rank[0] == 1 for each in ranking.candidates)
    first = (
        f"{tied} of {len(ranking.candidates)} tie for the first place" if tied > 1 else f"{_name(shown[0])} is first"
    )
    title = f"{ranking.lens.capitalize()}: {first}."
    caption = (
        "Tokens/s of one device that is paid for, in the smallest system that is sold and keeps the targets. "
        "Line: 90 % band of each alone; ranks are of comparisons, which are narrower."
    )
    return plan_bars(ranking.lens, bars, "tokens/s of one device", title, caption)


def _name(each: Candidate) -> str:
    return f"{each.devices} × {each.device} {each.precision}"


def _tables(ranking: Ranking) -> tuple[PlanTable, ...]:
    time = "time per token" if ranking.lens == "inference" else "step"
    heads = ("system", "format", "tokens/s each", "rank", time, "power", "per million tokens", "+10 % of …")
    rows = tuple(tuple(cells(each, ranking.lens)) for each in ranking.candidates)
    found: tuple[PlanTable, ...] = (
        PlanTable(f"{ranking.lens.capitalize()}: the smallest system of each device and format.", heads, rows),
    )
    shares = tuple(
        (_name(each), clean(part.model, 60), *cells(part, ranking.lens))
        for each in ranking.candidates
        for part in each.parts
    )
    if shares:
        text = "The devices of each model: its place were it alone, and what limits it."
        found = (*found, PlanTable(text, ("all", "model", *heads), shares))
    left = tuple((each.device, each.precision, clause_of(each.reason)) for each in ranking.rejected)
    return (*found, PlanTable(f"Not for {ranking.lens}.", ("device", "format", "why"), left)) if left else found
