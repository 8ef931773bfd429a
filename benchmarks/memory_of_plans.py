"""How near plans come to memory that others measured: every public row predicted, or refused with a reason.

    python -m benchmarks.memory_of_plans --data DIR [--save]     # writes docs/results/memory-of-plans.md

DIR holds CSV files with the columns source, model, hardware, n_gpus, parallelism, batch_or_concurrency, input_len,
metric, value, unit; those that are not there are left out.
"""

from __future__ import annotations

import argparse
import csv
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from benchmarks.columns import folded
from benchmarks.prediction.megatron import megatron_bytes, megatron_state_bytes
from twinlens.api.plan.reading.subject import subject_of
from twinlens.planning.fit.answer import TRAINING_SHORT
from twinlens.planning.fit.serving import Serving, serving_parts
from twinlens.planning.fit.training import Training
from twinlens.planning.fit.training_answer import Ways, placed
from twinlens.planning.subject import Subject
from twinlens.spec.catalogue import shipped
from twinlens.spec.device import load_device
from twinlens.spec.model.config import shape_from_config
from twinlens.spec.model.shape import DecoderShape
from twinlens.theory.memory import LAYOUTS
from twinlens.theory.parameter import parameters

GIB = 2.0**30
PAGE = Path(__file__).parents[1] / "docs" / "results" / "memory-of-plans.md"
Row = dict[str, str]
_UNTRIED = """**What does not fit, nobody measured.** The tables say of llm-foundry's microbatches that each is the
largest that fit. Its sweep says otherwise: `scripts/train/benchmarking/sweep.sh` names every microbatch by
hand, `submit_benchmarks.py` makes the global batch of it (microbatch × devices × accumulation), and no run
that failed is listed. {room} of the {of} runs had room for one sequence more, by another row: the same
model, boards, layout and precision held as many tokens, in sequences as long or longer, on as few devices
or fewer. So a Yes at twice a microbatch contradicts no measurement, and is no longer counted here (before:
12 of 71, and 17 of 72 before that)."""


@dataclass(frozen=True, slots=True)
class Case:
    """One row. `error`: predicted over measured less 1, as a share of `of`; None where it is refused, for `reason`."""

    source: str
    model: str
    what: str
    error: float | None
    of: str = "the part"
    reason: str = ""


_GPT_OSS = {
    "model_type": "gpt_oss", "num_hidden_layers": 36, "hidden_size": 2880, "num_attention_heads": 64,
    "num_key_value_heads": 8, "head_dim": 64, "intermediate_size": 2880, "num_local_experts": 128,
    "num_experts_per_tok": 4, "vocab_size": 201088, "max_position_embeddings": 131072, "sliding_window": 128,
    "attention_bias": True, "layer_types": ["sliding_attention", "full_attention"] * 18,
}  # fmt: skip
_MISTRAL = {
    "model_type": "mistral", "num_hidden_layers": 40, "hidden_size": 5120, "num_attention_heads": 32,
    "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 32768, "vocab_size": 131072,
    "max_position_embeddings": 131072,
}  # fmt: skip
_SERVED = {
    "gpt-oss-120b (MoE)": (_GPT_OSS, "mxfp4-experts", 0, 0.95),  # the row balances at 0.95, not at the 0.9 it prints
    "Mistral-Small-3.2-24B": (_MISTRAL, "bf16", 439_000_000, 0.95),  # and the weights of its vision tower
}
_VISIBLE = 79.18 * GIB
_MEGATRON = {
    "megatron-22B": (6144, 64, 48, 4, 8, 1, 1), "turing-530B": (20480, 128, 105, 1, 8, 35, 3),
    "megatron-1T": (25600, 160, 128, 1, 8, 64, 1),
}  # fmt: skip
FITTED = "a batch that fit"


def cases(folder: Path) -> list[Case]:
    """Every memory row of the files in a folder."""
    return [*_vllm(folder), *_selene(folder), *_mlperf(folder), *_witnesses(folder)]


def _rows(folder: Path, name: str) -> list[Row]:
    path = folder / name
    if not path.is_file():
        return []
    with path.open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def _vllm(folder: Path) -> Iterator[Case]:
    """Parts against parts; and the room for the cache, in which all of them add up, as a share of the memory."""
    for row in _rows(folder, "vllm_memory_h100.csv"):
        what = row["metric"].removeprefix("vllm_mem_")
        if row["model"] not in _SERVED:
            yield Case("vLLM", row["model"], what, None, reason="its config is not at hand")
            continue
        config, name, beside, share = _SERVED[row["model"]]
        shape = _decoder(config)
        subject = Subject(row["model"], parameters(shape).total, shape)
        parts = {each.name: float(each.value or 0) for each in serving_parts(Serving(subject, name), _VISIBLE)}
        parts["weights"] += 2 * beside
        told = {"weights": parts["weights"], "activation_peak": parts["activations"], "non_torch": parts["runtime"]}
        measured = float(row["value"]) * GIB
        if what in told:
            yield Case("vLLM", row["model"], what, told[what] / measured - 1)
        elif what == "kv_cache_available":
            left = share * _VISIBLE - sum(told.values())
            yield Case("vLLM", row["model"], "sum, by the room left", (measured - left) / _VISIBLE, "the memory")
        else:
            why = "captured graphs lie outside the share of memory that vLLM takes, and one row has less than none"
            yield Case("vLLM", row["model"], what, None, reason=why)


def _selene(folder: Path) -> Iterator[Case]:
    for row in _rows(folder, "megatron_selene_train.csv"):
        if row["unit"] != "GiB per GPU":
            continue
        hidden, heads, layers, batch, tensor, pipeline, chunks = _MEGATRON[row["model"]]
        shape, ways = gpt(hidden, heads, layers, 51200), {"tensor": tensor, "pipeline": pipeline, "chunks": chunks}
        if row["metric"] == "params_and_optimizer_memory":
            each = LAYOUTS["16-bit-fp32-master-and-gradients"].total
            told = megatron_state_bytes(shape, each, tensor=tensor, pipeline=pipeline)
        elif "selective" in row["parallelism"]:
            told = megatron_bytes(shape, batch, 2048, "selective", sequence_parallel=True, **ways)
        else:
            told = megatron_bytes(shape, batch, 2048, **ways)
        what = row["metric"].removesuffix("_memory").replace("_", " ")
        yield Case("Megatron", row["model"], what, float(told) / (float(row["value"]) * GIB) - 1)


def _mlperf(folder: Path) -> Iterator[Case]:
    """No row says formats, recompute and microbatch; without them memory is one of many."""
    for row in _rows(folder, "mlperf_training_v5.0_v5.1.csv"):
        if "memory" in row["metric"]:
            of = "formats, recompute and microbatch are not published with it"
            why = of if row["model"].startswith("llama") else "no plan is made of this kind of model"
            yield Case("MLPerf Training", row["model"], "peak", None, reason=why)


def _witnesses(folder: Path) -> Iterator[Case]:
    """Runs that fit, all with a fused cross-entropy: what `plan fit` tells, over what is usable."""
    for row in ran(folder):
        if "offload=True" in row["parallelism"]:
            why = "offloading to the host is not planned"
            yield Case("llm-foundry", row["model"], FITTED, None, reason=why)
            continue
        plan = Training(
            subject_of(row["model"].lower(), shipped()), layout="16-bit-autocast", context=int(row["input_len"]),
            batch=_batch(row), recompute="full" if "ckpt=True" in row["parallelism"] else "none", loss="fused",
        )  # fmt: skip
        board, ways = load_device(row["hardware"].lower()), Ways(zero=2 if "GRAD_OP" in row["parallelism"] else 3)
        found = placed(plan, board, int(row["n_gpus"]), ways)
        yield Case("llm-foundry", row["model"], FITTED, found.needed.number / found.usable.number - 1, "what is usable")


def ran(folder: Path) -> list[Row]:
    """Runs of llm-foundry."""
    return [row for row in _rows(folder, "llm_foundry_mpt_train.csv") if row["metric"] == "mfu"]


def _batch(row: Row) -> int:
    """Sequences of a microbatch."""
    return int(row["batch_or_concurrency"].split()[1].removeprefix("MBS"))


def had_room(rows: list[Row]) -> list[Row]:
    """Runs with room for another sequence: with the same model, boards, layout and precision at least as many tokens as
    that, in sequences as long or longer, fit on as few devices or fewer."""
    same = ("model", "hardware", "parallelism", "precision")
    return [row for row in rows if any(
        int(other["n_gpus"]) <= int(row["n_gpus"]) and int(other["input_len"]) >= int(row["input_len"])
        and int(other["input_len"]) * _batch(other) >= int(row["input_len"]) * (_batch(row) + 1)
        for other in rows if all(other[name] == row[name] for name in same)
    )]  # fmt: skip


def gpt(hidden: int, heads: int, layers: int, vocab: int) -> DecoderShape:
    """A block of GPT: LayerNorm, biases, an MLP of four times the width, tied embeddings."""
    return DecoderShape(
        layers=layers, hidden=hidden, heads=heads, kv_heads=heads, head_dim=hidden // heads, intermediate=4 * hidden,
        vocab=vocab, tied_embeddings=True, max_context=2048, gated_mlp=False, norm_bias=True, attention_bias="all",
        mlp_bias=True, learned_positions=True,
    )  # fmt: skip


def _decoder(config: dict[str, object]) -> DecoderShape:
    shape = shape_from_config(config)
    assert isinstance(shape, DecoderShape)
    return shape


def page(found: list[Case], fitted: list[Row]) -> str:
    """The table in Markdown, made of nothing but the cases and runs that fit."""
    groups: dict[tuple[str, str, str], list[float]] = {}
    for case in found:
        if case.error is not None:
            model = "all" if case.source == "llm-foundry" else case.model
            groups.setdefault((f"{case.source} · {model}", case.what, case.of), []).append(case.error)
    lines = ["# Memory of plans against what others measured", "",
             "Written by `python -m benchmarks.memory_of_plans --data DIR --save`, never by hand. Above 0: too much.",
             "", "| rows | what | share of | n | median error | worst |", "|---|---|---|---:|---:|---:|"]  # fmt: skip
    for (rows, what, of), errors in groups.items():
        worst = max(errors, key=abs)
        lines.append(f"| {rows} | {what} | {of} | {len(errors)} | {median(errors):+.1%} | {worst:+.1%} |")
    fits = [case.error for case in found if case.what == FITTED and case.error is not None]
    if fits:
        told = sum(error <= 0 for error in fits)
        close = sum((1 + error) * (1 + TRAINING_SHORT) >= 1 for error in fits if error <= 0)
        lines += ["", f"Of {len(fits)} runs that fit, {told} are told to fit, {close} of them but close.", "",
                  _UNTRIED.format(room=len(had_room(fitted)), of=len(fitted))]  # fmt: skip
    if any(case.source == "Megatron" for case in found):
        lines += [
            "",
            "Megatron's rows are the paper's arithmetic to the last digit: they check ours, and measure nothing.",
        ]
    refused = Counter((case.source, case.what, case.reason) for case in found if case.error is None)
    lines += ["", "Refused:", ""]
    lines += [f"- {source}, {what} ({many} rows): {why}." for (source, what, why), many in refused.items()]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.memory_of_plans", description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="a folder of CSV files")
    parser.add_argument("--save", action="store_true", help="write docs/results/memory-of-plans.md")
    asked = parser.parse_args()
    text = page(cases(asked.data), ran(asked.data))
    if asked.save:
        PAGE.write_text(folded(text), encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
