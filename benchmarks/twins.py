"""How near simulated twins come to measured runs of real servers, and how often their bands hold them.

`python -m benchmarks.twins` prints the table of docs/results/twins.md (`--save` writes it; folders of studies given
instead are judged alone). Each run is predicted on its own arrivals, prompts and lengths of answers, by laws learnt
from itself, from other rates of the same server, from servers started afresh (one, or at least three), and, where its
lengths or its engine's limits are others, from the servers of the study that has the usual ones.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.columns import put
from benchmarks.published import FOLDER, published
from twinlens.api.runs import read, summary
from twinlens.errors import BadInput
from twinlens.pack.unpacked import unpacked
from twinlens.record.run import Run
from twinlens.simulation.fit.law import FittedLaw
from twinlens.simulation.fit.learn import learn, rules_of, server_of
from twinlens.simulation.fit.own_run import arrivals_of, served_times
from twinlens.simulation.work import Floats
from twinlens.stats.summary.serving import is_served

PLACE = FOLDER / "twins.md"
PACK = FOLDER / "fresh-servers.zip"
STUDIES = ("2026-11-21-served-epyc-2core", "2026-11-22-url-epyc-2core")
_LEVEL = 0.9
_DRAWS = 40
_THREE = 3
ITSELF, RATE, ONE, SEVERAL, ELSE = "itself", "another rate", "one fresh server", "three fresh servers", "another load"
UNSTEADY = "any, of a run that was not steady"
_HEAD = """# Twins of measured servers

Made by `python -m benchmarks.twins --save`; not edited by hand. A law is learnt from runs of a real server on a
processor (`twinlens.simulation.fit`), and each run is simulated by it with the run's own arrivals, prompts and lengths.
Errors are those of the simulated figure, mean over {draws} seeds of the law in the middle; TTFT counts from sending.
A run that was not steady, near what its server can serve, has no figure of its own to be near to: a little more
capacity halves its queue, and `simulate` says a band of rates there.
In the band: whether the measured figure lies where {level:.0%} of simulations of a server started afresh do, each with
its own draw of the law's constants.

"""
FIGURES = ("TTFT mean", "TPOT mean", "TTFT p95", "TPOT p95")


@dataclass(frozen=True, slots=True)
class Row:
    """A prediction of one run. `errors`: simulated over measured less 1, by figure. `held`: whether the band has it."""

    study: str
    run: str
    kind: str
    taught: str
    errors: tuple[float, ...]
    held: tuple[bool, ...]


@dataclass(frozen=True, slots=True)
class _Study:
    name: str
    servers: tuple[tuple[Run, ...], ...]

    @property
    def load(self) -> tuple[str, str, str]:
        """What law and load hang on, but for lengths and limits: executor, model, precision."""
        spec = self.servers[0][0].spec
        return spec.executor.kind, str(spec.workload.model), spec.point.precision


def rows(folders: Sequence[Path]) -> Iterator[Row]:
    """Predictions of every served run below these folders, by each law that can be learnt, in order."""
    studies = [study for folder in folders for study in _studies(folder)]
    largest: dict[tuple[str, str, str], _Study] = {}
    for study in studies:
        if study.load not in largest or len(study.servers) > len(largest[study.load].servers):
            largest[study.load] = study
    laws: dict[tuple[str, ...], FittedLaw | None] = {}
    for study in studies:
        for place, same in enumerate(study.servers):
            others = [each for each in study.servers if each is not same]
            usual = largest[study.load]
            for run in same:
                for kind, taught, runs in _teachers(run, same, others, usual if usual is not study else None):
                    key = tuple(each.id for each in runs)
                    law = laws[key] = laws[key] if key in laws else _learnt(runs)
                    if law is not None:
                        kind = kind if _is_steady(run) else UNSTEADY
                        yield _row(study.name, f"{_rate(run)}, server {place + 1}", kind, taught, run, law)


def _studies(folder: Path) -> Iterator[_Study]:
    """Studies below a folder with the servers of each, in the order of their first run."""
    found: dict[str, dict[str, list[Run]]] = defaultdict(lambda: defaultdict(list))
    for run in read(folder, skip_broken=True):
        if is_served(run) and run.is_finished and not run.spec.point.admission:
            found[run.folder.parent.name][server_of(run)].append(run)
    for name, servers in sorted(found.items()):
        yield _Study(name, tuple(tuple(each) for each in servers.values()))


def _is_steady(run: Run) -> bool:
    return summary(run).verdict.validity != "not valid"


def _learnt(runs: Sequence[Run]) -> FittedLaw | None:
    """None where they cannot teach."""
    try:
        return learn(runs)
    except BadInput:
        return None


def _teachers(
    run: Run, same: Sequence[Run], others: Sequence[Sequence[Run]], usual: _Study | None
) -> Iterator[tuple[str, str, list[Run]]]:
    """(kind, said, runs) of each law that predicts a run."""
    yield ITSELF, ITSELF, [run]
    for other in same:
        if other is not run:
            yield RATE, f"{_rate(other)} of the same server", [other]
    for other in others:
        yield ONE, f"{_rates(other)} of one fresh server", list(other)
    if len(others) >= _THREE:
        yield SEVERAL, f"{len(others)} fresh servers", [each for other in others for each in other]
    if usual is not None:
        runs = [each for server in usual.servers for each in server]
        yield ELSE, f"{len(usual.servers)} fresh servers, {_lengths(runs[0])}, {_limit(runs[0])}", runs


def _row(study: str, name: str, kind: str, taught: str, run: Run, law: FittedLaw) -> Row:
    work, first_s, each_s = arrivals_of(run.requests.own_time())
    rules, _ = rules_of(run)
    counts = (work.arrival_s >= summary(run).verdict.begin_s) & np.isfinite(each_s)
    measured = figures(first_s[counts], each_s[counts])
    places = np.linspace(0, len(law.draws) - 1, _DRAWS).astype(int)

    def simulated(seed: int, afresh: bool) -> Floats:
        used = law.draws[places[seed]] if afresh else law.law
        first, each = served_times(work, used, law.noise, rules, seed)
        return figures(first[counts], each[counts])

    middle = np.mean([simulated(seed, afresh=False) for seed in range(_DRAWS // 4)], axis=0)
    band = np.array([simulated(seed, afresh=True) for seed in range(_DRAWS)])
    low, high = np.quantile(band, [(1 - _LEVEL) / 2, (1 + _LEVEL) / 2], axis=0)
    held = tuple(map(bool, (low <= measured) & (measured <= high)))
    return Row(study, f"{name}, {_lengths(run)}, {_limit(run)}", kind, taught, tuple(middle / measured - 1), held)


def figures(first_s: Floats, each_s: Floats) -> Floats:
    """Those of `FIGURES`, in seconds, from the seconds of each request: to its first token, and per later one."""
    return np.array([first_s.mean(), each_s.mean(), np.quantile(first_s, 0.95), np.quantile(each_s, 0.95)])


def _rate(run: Run) -> str:
    return f"{run.spec.point.rate_per_s:g}/s"


def _rates(runs: Sequence[Run]) -> str:
    return f"{', '.join(f'{run.spec.point.rate_per_s:g}' for run in runs)}/s"


def _lengths(run: Run) -> str:
    requests = run.requests
    return f"{requests.input_tokens.mean():.0f} + {requests.output_tokens.mean():.0f} tokens"


def _limit(run: Run) -> str:
    return f"at most {rules_of(run)[0].max_num_seqs} together"


def floors(folders: Sequence[Path]) -> Iterator[tuple[str, str, int, Floats]]:
    """Study, rate, servers, and by how much fresh servers differ in each figure at it (standard deviation of logs)."""
    for folder in folders:
        for study in _studies(folder):
            by_rate: dict[str, list[Floats]] = defaultdict(list)
            for run in (each for server in study.servers for each in server):
                work, first_s, each_s = arrivals_of(run.requests.own_time())
                counts = (work.arrival_s >= summary(run).verdict.begin_s) & np.isfinite(each_s)
                by_rate[_rate(run)].append(figures(first_s[counts], each_s[counts]))
            for rate, found in by_rate.items():
                if len(found) > 1:
                    yield study.name, rate, len(found), np.log(found).std(axis=0, ddof=1)


def page(found: Sequence[Row], apart: Sequence[tuple[str, str, int, Floats]]) -> str:
    """What each kind of law gives, how far servers differ, and every prediction."""
    text = [
        "| learnt from | figure | predictions | median error | nine in ten within | largest | in the band |",
        "|---|---|---:|---:|---:|---:|---:|",
    ]
    for kind in (ITSELF, RATE, ONE, SEVERAL, ELSE, UNSTEADY):
        chosen = [each for each in found if each.kind == kind]
        for i, figure in enumerate(FIGURES if chosen else ()):
            off, held = np.abs([each.errors[i] for each in chosen]), sum(each.held[i] for each in chosen)
            text.append(
                f"| {kind} | {figure} | {len(off)} | {np.median(off):.1%} | {np.quantile(off, 0.9):.1%} "
                f"| {off.max():.1%} | {held / len(off):.0%} |"
            )
    text += [
        *("", "Servers started afresh, at the same rate of the same load (standard deviation of the logarithm):", ""),
        f"| study | rate | servers | {' | '.join(FIGURES)} |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    text += [
        f"| {study} | {rate} | {n} | {' | '.join(f'{each:.1%}' for each in spread)} |"
        for study, rate, n, spread in apart
    ]
    text += [
        *("", "Every prediction:", "", f"| study | run | learnt from | {' | '.join(FIGURES)} | in the band |"),
        "|---|---|---|---:|---:|---:|---:|---:|",
    ]
    text += [
        f"| {each.study} | {each.run} | {each.taught} | {' | '.join(f'{error:+.1%}' for error in each.errors)} "
        f"| {sum(each.held)} of {len(each.held)} |"
        for each in found
    ]
    return _HEAD.format(draws=_DRAWS // 4, level=_LEVEL) + "\n".join(text) + "\n"


def main() -> None:
    """Print the page, or write it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--save", action="store_true", help="write docs/results/twins.md")
    parser.add_argument("folders", nargs="*", type=Path, help="folders of studies, instead of the published ones")
    asked = parser.parse_args()
    if asked.folders:
        print(page(list(rows(asked.folders)), list(floors(asked.folders))), end="")
        return
    with unpacked(PACK) as folder:
        folders = [*(published() / name for name in STUDIES), folder / "runs"]
        text = page(list(rows(folders)), list(floors(folders)))
    put(text, PLACE, save=asked.save)


if __name__ == "__main__":
    main()
