"""How near simulated twins come to the published runs of real servers, and how often their bands hold them.

`python -m benchmarks.twins` prints the table of docs/results/twins.md (`--save` writes it). Each run is predicted by
the law learnt from itself, from each other run of the same server, and from all runs of another one; on its own
arrivals, prompts and lengths of answers.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.published import published
from twinlens.api.runs import read, summary
from twinlens.errors import BadInput
from twinlens.record.run import Run
from twinlens.simulation.fit.law import FittedLaw
from twinlens.simulation.fit.learn import learn, server_of
from twinlens.simulation.fit.own_run import arrivals_of, served_times
from twinlens.simulation.work import Floats

PLACE = Path(__file__).parents[1] / "docs" / "results" / "twins.md"
FOLDERS = ("2026-11-21-served-epyc-2core", "2026-11-22-url-epyc-2core")
_LEVEL = 0.9
_DRAWS = 40
_HEAD = """# Twins of measured servers

Made by `python -m benchmarks.twins --save`; not edited by hand. A law is learnt from runs of vLLM on a processor
(`twinlens.simulation.fit`), and each published run is simulated by it with the run's own arrivals, prompts and lengths.
Errors are those of the simulated figure, mean over {draws} seeds of the law in the middle; TTFT counts from sending.
In the band: whether the measured figure lies where {level:.0%} of simulations of a server started afresh do. Servers 1
and 2 are of one study, started one after the other, and differ by some 20 %: the band is made for that, and wide for
another run of the same server.

| run | learnt from | TTFT mean | TPOT mean | TTFT p95 | TPOT p95 | in the band |
|---|---|---:|---:|---:|---:|---:|
"""
_FIGURES = ("TTFT mean", "TPOT mean", "TTFT p95", "TPOT p95")


@dataclass(frozen=True, slots=True)
class Row:
    """A prediction of one run. `errors`: simulated over measured less 1, by figure. `held`: whether the band has it."""

    run: str
    taught: str
    errors: tuple[float, ...]
    held: tuple[bool, ...]


def rows(folders: Sequence[str] = FOLDERS) -> Iterator[Row]:
    """Predictions of every published served run that can teach, in order."""
    runs = [run for name in folders for run in read(published() / name, skip_broken=True) if _teaches(run)]
    servers: dict[tuple[str, str], list[Run]] = defaultdict(list)
    for run in runs:
        servers[run.folder.parent.name, server_of(run)].append(run)
    laws = {(run.id,): learn([run]) for run in runs}
    laws |= {tuple(run.id for run in same): learn(same) for same in servers.values() if len(same) > 1}
    for place, ((study, _), same) in enumerate(servers.items(), 1):
        others = [each for (of, _), each in servers.items() if of == study and each is not same]
        for run in same:
            name = f"{_rate(run)}, server {place}"
            yield _row(run, name, "itself", laws[run.id,])
            for other in same:
                if other is not run:
                    yield _row(run, name, f"{_rate(other)} of the same server", laws[other.id,])
            for each in others:
                yield _row(run, name, "another server, all rates", laws[tuple(one.id for one in each)])


def _teaches(run: Run) -> bool:
    try:
        learn([run])
    except BadInput:
        return False
    return True


def _row(run: Run, name: str, taught: str, law: FittedLaw) -> Row:
    work, first_s, each_s = arrivals_of(run.requests.own_time())
    counts = (work.arrival_s >= summary(run).verdict.begin_s) & np.isfinite(each_s)
    measured = _figures(first_s[counts], each_s[counts])
    places = np.linspace(0, len(law.draws) - 1, _DRAWS).astype(int)

    def simulated(seed: int, afresh: bool) -> Floats:
        used = law.draws[places[seed]] if afresh else law.law
        first, each = served_times(work, used, law.noise, law.rules, seed)
        return _figures(first[counts], each[counts])

    middle = np.mean([simulated(seed, afresh=False) for seed in range(_DRAWS // 4)], axis=0)
    band = np.array([simulated(seed, afresh=True) for seed in range(_DRAWS)])
    low, high = np.quantile(band, [(1 - _LEVEL) / 2, (1 + _LEVEL) / 2], axis=0)
    held = tuple(map(bool, (low <= measured) & (measured <= high)))
    return Row(name, taught, tuple(middle / measured - 1), held)


def _figures(first_s: Floats, each_s: Floats) -> Floats:
    return np.array([first_s.mean(), each_s.mean(), np.quantile(first_s, 0.95), np.quantile(each_s, 0.95)])


def _rate(run: Run) -> str:
    return f"{run.spec.point.rate_per_s:g}/s"


def page(found: Sequence[Row]) -> str:
    """The table, with a last line on how many measured figures the bands hold."""
    lines = [
        f"| {each.run} | {each.taught} | {' | '.join(f'{error:+.1%}' for error in each.errors)} "
        f"| {sum(each.held)} of {len(each.held)} |"
        for each in found
    ]
    kinds = [
        (name, [each for each in found if each.taught.endswith(end)])
        for name, end in (("itself", "itself"), ("another rate", "same server"), ("another server", "all rates"))
    ]
    ends = [
        "",
        "| learnt from | figure | predictions | median error | largest | in the band |",
        "|---|---|---:|---:|---:|---:|",
    ]
    for name, chosen in kinds:
        for i, figure in enumerate(_FIGURES if chosen else ()):
            off = np.abs([each.errors[i] for each in chosen])
            held = sum(each.held[i] for each in chosen)
            ends.append(
                f"| {name} | {figure} | {len(off)} | {np.median(off):.1%} | {off.max():.1%} | {held / len(off):.0%} |"
            )
    return _HEAD.format(draws=_DRAWS // 4, level=_LEVEL) + "\n".join([*lines, *ends]) + "\n"


def main() -> None:
    """Print the page, or write it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--save", action="store_true", help="write docs/results/twins.md")
    text = page(list(rows()))
    if parser.parse_args().save:
        PLACE.write_text(text, encoding="utf-8")
    else:
        print(text, end="")


if __name__ == "__main__":
    main()
