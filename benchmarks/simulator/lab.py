"""Policies of batching on a real server and in its simulation: do they come in the same order?

`python -m benchmarks.simulator.lab` prints docs/results/batching-lab.md (`--save` writes it). One vLLM on this machine
met the same arrivals behind three policies. A law is learnt from the continuous run alone; the other policies are
played in virtual time by it, each with several draws of the law's constants.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.columns import put
from benchmarks.published import FOLDER
from benchmarks.twins import PACK
from twinlens.api.runs import read
from twinlens.pack.unpacked import unpacked
from twinlens.record.request import Requests
from twinlens.record.run import Run
from twinlens.simulation.fit.law import FittedLaw
from twinlens.simulation.fit.learn import learn
from twinlens.simulation.noise import Noise
from twinlens.simulation.points.play import play
from twinlens.simulation.work import Floats

PLACE = FOLDER / "batching-lab.md"
QUANTILES = (0.5, 0.95, 0.99)
_DRAWS, _LEVEL = 40, 0.9


@dataclass(frozen=True, slots=True)
class Policy:
    """TTFT of one policy at each of `QUANTILES`, from when a request was due: measured, then simulated (draws, …)."""

    name: str
    requests: int
    measured_s: Floats
    simulated_s: Floats

    @property
    def middle_s(self) -> Floats:
        return np.asarray(np.median(self.simulated_s, axis=0))

    @property
    def band_s(self) -> Floats:
        """Its least and greatest, (2, quantiles)."""
        return np.asarray(np.quantile(self.simulated_s, [(1 - _LEVEL) / 2, (1 + _LEVEL) / 2], axis=0))


def policies(runs: Sequence[Run]) -> Iterator[Policy]:
    """Each run with its admission, measured and simulated by the law of the continuous one."""
    law = learn([run for run in runs if run.spec.point.admission == "continuous"])
    for run in runs:
        simulated = np.array([_first_s(_played(run, law, draw)) for draw in range(_DRAWS)])
        measured = run.requests.own_time()
        yield Policy(_name(run), len(measured), _first_s(measured), simulated)


def _played(run: Run, law: FittedLaw, draw: int) -> Requests:
    used = law.draws[draw * len(law.draws) // _DRAWS]
    return Requests.from_table(play(run.spec, used, law.rules, noise=Noise(law.noise, draw)).table)


def _first_s(requests: Requests) -> Floats:
    first_s = (requests.first_chunk_ns() - requests.intended_ns) / 1e9
    return np.asarray(np.quantile(first_s[requests.first_chunk_ns() > 0], QUANTILES))


def _name(run: Run) -> str:
    point = run.spec.point
    if point.admission == "static":
        return f"static, {point.batch} together"
    if point.admission == "dynamic":
        return f"dynamic, {point.batch} together or {1e3 * (point.timeout_s or 0):g} ms"
    return f"continuous, {point.in_flight or 'any number'} in flight"


def order(found: Sequence[Policy], quantile: float, *, measured: bool) -> list[str]:
    """Names of policies, the lowest TTFT first."""
    at = QUANTILES.index(quantile)
    return [each.name for each in sorted(found, key=lambda one: (one.measured_s if measured else one.middle_s)[at])]


_HEAD = """# Policies of batching, measured and simulated

Made by `python -m benchmarks.simulator.lab --save`; not edited by hand. vLLM on a processor ({study}); TTFT counts from
when a request was due. The law is learnt from the continuous run alone; a band holds nine of ten simulations of a
server started afresh.

| policy | requests | {heads} |
|---|---:|{lines}
"""


def page(runs: Sequence[Run]) -> str:
    """The table, and the order of policies by each quantile."""
    found = list(policies(runs))
    heads = " | ".join(f"TTFT p{100 * each:g}, ms | simulated, ms" for each in QUANTILES)
    text = [_HEAD.format(study=_load(runs[0]), heads=heads, lines="---:|" * 2 * len(QUANTILES)).rstrip()]
    for each in found:
        cells = [
            f"{1e3 * each.measured_s[i]:.0f} | {1e3 * each.middle_s[i]:.0f} "
            f"({1e3 * each.band_s[0, i]:.0f}–{1e3 * each.band_s[1, i]:.0f})"
            for i in range(len(QUANTILES))
        ]
        text.append(f"| {each.name} | {each.requests} | {' | '.join(cells)} |")
    text.append("")
    for quantile in QUANTILES:
        real, simulated = (order(found, quantile, measured=which) for which in (True, False))
        said = "the same order simulated" if real == simulated else f"simulated: {'; '.join(simulated)}"
        text.append(f"- By p{100 * quantile:g}, lowest first: {'; '.join(real)}: {said}.")
    return "\n".join(text) + "\n"


def _load(run: Run) -> str:
    requests = run.requests
    prompt, answer = requests.input_tokens.mean(), requests.output_tokens.mean()
    return f"{run.spec.point.rate_per_s:g} requests/s, {prompt:.0f} + {answer:.0f} tokens, {run.spec.point.precision}"


def main() -> None:
    """Print the page, or write it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--save", action="store_true", help="write docs/results/batching-lab.md")
    parser.add_argument("folder", nargs="?", type=Path, help="a study with the three policies, else the published one")
    asked = parser.parse_args()
    if asked.folder:
        text = page(list(read(asked.folder)))
    else:
        with unpacked(PACK) as folder:
            text = page([run for run in read(folder / "runs") if run.spec.point.admission])
    put(text, PLACE, save=asked.save)


if __name__ == "__main__":
    main()
