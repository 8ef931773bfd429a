"""Figures of plans name the laws that they are instances of, and laws the plans that rest on them."""

from __future__ import annotations

import json
import re
from functools import cache
from typing import Any

import pytest
from click.testing import CliRunner

from twinlens import plan
from twinlens.cli.main import app
from twinlens.theory.law import LAWS

SAMPLES: dict[str, tuple[Any, ...]] = {
    "fit": (
        lambda: plan.fit("70B", users=16, context="32K", device="B200"),
        lambda: plan.fit("70B", train="full", device="B200", devices=8),
    ),
    "capacity": (lambda: plan.capacity("70B", device="B200", devices=2, users=16, prompt=1024, answer=512),),
    "cost": (
        lambda: plan.cost("4 requests/s", rent="3 USD/h", users="1000", uses="10"),
        lambda: plan.cost("4 requests/s", buy="30000 USD", energy="0.12 USD/kWh", device="H100", devices=8),
    ),
    "roi": (lambda: plan.roi(device="H100", hours=24, energy="0.12 USD/kWh"),),
    "check": (
        lambda: plan.check("70B", device="H100", devices=4, users=16, hours=10),
        lambda: plan.check("8B", device="H100", devices=8, train="full", tokens="1B", mfu="0.3..0.5"),
    ),
    "method": (lambda: plan.method("8B", device="H100", corpus="20M", requests=1000, shots=8),),
    "model": (lambda: plan.model(["8B", "qwen3-8b"], device="H100", users=16, price=3),),
}


@cache
def cited(verb: str) -> set[str]:
    """Names of the laws in the JSON of all samples of a verb."""
    found = (json.dumps(sample().to_json(), default=str) for sample in SAMPLES[verb])
    return {law for text in found for law in re.findall(r'"law": "([a-z-]+)"', text)}


@pytest.mark.parametrize("verb", SAMPLES)
def test_a_law_that_names_a_plan_is_named_by_its_figures(verb: str) -> None:
    rests = {law.name for law in LAWS.values() if f"plan {verb}" in law.verbs.split(", ")}
    assert rests - cited(verb) == set()


def test_a_figure_names_a_law_that_there_is_and_that_says_so() -> None:
    found = set().union(*map(cited, SAMPLES))
    assert sorted(law for law in found if "plan" not in LAWS[law].verbs) == []


def test_the_arithmetic_of_a_plan_ends_in_the_laws_to_read() -> None:
    words = ["--model", "70B", "--users", "16", "--context", "32K", "--device", "B200", "--why"]
    shown = " ".join(CliRunner().invoke(app, ["plan", "fit", *words]).stdout.split())
    assert "KV cache: 171.8 GB (160.0 GiB) = 16 users × 10.74 GB [kv]" in shown
    assert "laws weights, kv, kv-per-token: twinlens explain weights" in shown


def test_figures_are_what_their_laws_give() -> None:
    parts = {each.name: each for each in plan.fit("70B", users=16, context="32K", device="B200").answer.asked.parts}
    sizes = {"layers": 80, "kv-heads": 8, "head-dim": 128, "element-bytes": 2}
    token = LAWS["kv-per-token"].value(sizes)
    assert token == 327_680  # 2 × 80 × 8 × 128 × 2
    assert parts["kv"].value == LAWS["kv"].value({"kv-per-token": token, "context": 32_768, "users": 16})
    params = parts["weights"].inputs[0].value
    assert parts["weights"].value == LAWS["weights"].value({"params": params, "bits": 16})
    state = plan.fit("70B", train="full", device="B200", devices=8).answer.asked.parts
    given = {"params": params, "bytes-per-parameter": 16, "shards": 8}
    held = sum(each.number for each in state if each.law == "training-memory")
    assert held == pytest.approx(LAWS["training-memory"].value(given), rel=1e-6)
