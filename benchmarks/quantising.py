"""How many measured gains of a narrower precision lie in the band that the diagnosis predicts.

`python -m benchmarks.quantising` prints the table of docs/results/quantising.md (`--save` writes it). Of the published
runs each is predicted by its own ceilings, and by those of the run in the other precision. `--data DIR`: public tables
too (llama.cpp's decode, NeMo's and llm-foundry's training), whose ceilings are those of the data sheet.
"""

from __future__ import annotations

import argparse
import csv
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks import published as unpacked_runs
from benchmarks.columns import folded
from benchmarks.prediction.devices import device_of
from benchmarks.prediction.names import shape_of
from twinlens.api.runs import material_of, read
from twinlens.api.siblings import Studies
from twinlens.diagnosis.evidence import evidence_of
from twinlens.diagnosis.quantise import CASTS, quantise, times_in
from twinlens.theory.traffic import decode_traffic

PLACE = Path(__file__).parents[1] / "docs" / "results" / "quantising.md"
_PEAKS = {"bf16": "bf16", "amp_bf16": "bf16", "nvfp4": "fp4"}
_FP8 = ("fp8", "amp_fp8", "mxfp8", "fp8-cs", "fp8-mx")
_BITS = {"bf16": 16, "fp8": 8, "fp4": 4}
_Q4_K_M_BITS = 4.89
_HEAD = """# How frequently the gain of a narrower precision lies in its band

Made by `python -m benchmarks.quantising --data DIR --save`. `twinlens diagnose` predicts what a narrower precision
gives ([will quantising help?](../../src/twinlens/pages/findings/quantise-latency.md)) between two bounds: what is
neither arithmetic nor bytes stays as it is, or shrinks with them. Of training the lower bound is {casts:g} times
less, as each product casts its operands. Until 2026-11-24 the rest stayed in both bounds, and only ceilings differed:
18 of 32 bands of published runs met the measured interval (13 of 29 when they were judged); of 88 public pairs of
decode 86 gained more than that.

Here a pair counts where the *measured value* lies in the band, which is harder than to meet its interval.

| pairs | predicted by | pairs | below | in the band | above |
|---|---|---:|---:|---:|---:|
"""
_TAIL = """
The two above are bf16 at batch 4 on a processor whose fp32 kernels are further from their ceiling than its bf16 ones.
Pairs of one machine share its kernels, so these are fewer independent cases than rows. The divisor {casts:g} was
chosen on these pairs: without it {bare} of the {trained} of training lie in their band, the others below.
"""


@dataclass(frozen=True, slots=True)
class Pair:
    """A measured gain and its band."""

    kind: str
    by: str
    measured: float
    low: float
    high: float

    @property
    def place(self) -> int:
        """-1 below the band, 0 in it, 1 above."""
        return int(self.measured > self.high) - int(self.measured < self.low)


def published(studies_in: str = "*") -> Iterator[Pair]:
    """Pairs of precisions that the published studies measured, of result folders whose names match."""
    for study in sorted(unpacked_runs.published().glob(f"{studies_in}/*/")):
        materials = material_of(read(study, skip_broken=True))
        studies = Studies(materials)
        for run, summary in materials:
            siblings = studies.siblings(run) if run.is_finished else {}
            if not any(each.ratio.value for each in siblings.values()):
                continue
            seen = evidence_of(run, summary)
            for given, by in ((siblings, "ceilings of both runs"), ({}, "its own ceilings alone")):
                for found in quantise(seen, given):
                    measured = siblings[found.subject].ratio.value if found.subject in siblings else None
                    band = found.evidence["predicted"]
                    if measured and band.low and band.high:
                        yield Pair(f"published, {run.lens}", by, measured, band.low, band.high)


def public_decode(data: Path) -> Iterator[Pair]:
    """llama.cpp at batch 1, F16 and Q4_K_M on one device: bytes of weights and cache at the rate of its data sheet."""
    rates: dict[tuple[str, str, str], dict[str, float]] = defaultdict(dict)
    for row in _rows(data / "llamacpp_consumer_apple.csv"):
        if row["metric"] == "decode_tokens_per_s":
            rates[row["model"], row["hardware"], row["output_len"]][row["precision"]] = float(row["value"])
    for (model, hardware, tokens), of in rates.items():
        device = device_of(hardware.split(" *")[0])
        if device is None or len(of) < 2:
            continue
        shape, whole_s = shape_of(model), 1 / of["F16"]
        assert shape is not None
        least = [
            float(decode_traffic(shape, int(tokens) // 2, 1, bits).compulsory_bytes) / device.bandwidth_bytes_per_s
            for bits in (16, _Q4_K_M_BITS)
        ]
        yield _pair("public, decode", whole_s, min(whole_s, least[0]), least[1], of["Q4_K_M"] / of["F16"])


def public_training(data: Path) -> Iterator[Pair]:
    """Training of one model on as many devices of one kind in two formats: model FLOP at the rate of the data sheet."""
    rows: dict[tuple[str, ...], dict[str, dict[str, float]]] = defaultdict(lambda: defaultdict(dict))
    for name in ("llm_foundry_mpt_train.csv", "nemo_megatron_bridge_train.csv"):
        for row in _rows(data / name):
            batch = row["batch_or_concurrency"] if "foundry" in name else row["batch_or_concurrency"].split()[0]
            key = (row["source"], row["model"], row["hardware"], row["n_gpus"], row["input_len"], batch)
            rows[key][row["precision"]][row["metric"]] = float(row["value"])
    for key, of in rows.items():
        device = device_of(key[2])
        for wide, narrow in ((a, b) for a in of for b in of):
            peaks = [getattr(device.dense_flop_per_s, _peak(each), None) if device else None for each in (wide, narrow)]
            if not all(peaks) or _BITS[_peak(wide)] <= _BITS[_peak(narrow)]:
                continue
            share = of[wide]["mfu"] / 100 if "mfu" in of[wide] else of[wide]["model_tflops_per_gpu"] * 1e12 / peaks[0]
            measured = of[narrow]["throughput_per_gpu"] / of[wide]["throughput_per_gpu"]
            yield _pair("public, training", 1.0, share, share * peaks[0] / peaks[1], measured, CASTS)


def _pair(kind: str, whole_s: float, before_s: float, after_s: float, measured: float, casts: float = 1.0) -> Pair:
    stays, shrinks = times_in(whole_s, {"all": whole_s}, {"all": before_s}, {"all": after_s})
    return Pair(kind, "data sheet", measured, whole_s / stays / casts, whole_s / shrinks)


def _peak(precision: str) -> str:
    return "fp8" if precision in _FP8 else _PEAKS[precision]


def _rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def table(found: list[Pair]) -> str:
    """The table by kind and way."""
    lines = []
    for kind, by in dict.fromkeys((each.kind, each.by) for each in found):
        places = [each.place for each in found if (each.kind, each.by) == (kind, by)]
        inside = places.count(0)
        lines.append(
            f"| {kind} | {by} | {len(places)} | {places.count(-1)} | {inside} ({inside / len(places):.0%}) | "
            f"{places.count(1)} |"
        )
    inside = sum(each.place == 0 for each in found)
    return "\n".join([*lines, f"| all | | {len(found)} | | {inside} ({inside / len(found):.0%}) | |"])


def main() -> None:
    ask = argparse.ArgumentParser(prog="python -m benchmarks.quantising", description=__doc__)
    ask.add_argument("--data", type=Path, help="a folder of public tables")
    ask.add_argument("--save", action="store_true")
    asked = ask.parse_args()
    public = [*public_decode(asked.data), *public_training(asked.data)] if asked.data else []
    found = [*published(), *public]
    trained = [each for each in found if each.kind.endswith("training")]
    bare = sum(each.place == 0 and each.measured >= each.low * CASTS for each in trained)
    told = _HEAD.format(casts=CASTS) + table(found) + "\n"
    told += _TAIL.format(casts=CASTS, bare=bare, trained=len(trained))
    print(told, end="")
    if asked.save:
        PLACE.write_text(folded(told), encoding="utf-8")


if __name__ == "__main__":
    main()
