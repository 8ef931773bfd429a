"""Every model type that theory reads, against a small model of that type that torch builds and runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="needs the torch extra")

from family_table import COMPUTED_TWICE, PAGE, TYPES, model, page, row  # noqa: E402

from material import inference, quiet, spec_of, training  # noqa: E402
from twinlens.executors.torch.infer import TorchServer  # noqa: E402
from twinlens.executors.torch.train import TorchTrainer  # noqa: E402
from twinlens.theory.parameter import parameters  # noqa: E402

pytestmark = pytest.mark.torch
PEOPLE_BRING = ("qwen3_moe", "deepseek_v3", "gemma3_text", "phi3", "gpt_oss")
RUN_HERE = [kind for kind in TYPES if not model(kind).shape.recurrent]  # type: ignore[union-attr]


@pytest.mark.parametrize("kind", TYPES)
def test_parameters_flop_and_cache_are_those_of_the_model_that_transformers_builds(kind: str) -> None:
    seen = row(kind)
    assert parameters(seen.shape).total == seen.built
    if seen.flop_ratio is not None:
        assert seen.kv_ratio == 1
        assert (seen.flop_ratio == pytest.approx(1, rel=0.01)) == (kind not in COMPUTED_TWICE)


def test_the_page_on_families_says_what_was_counted() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run python tests/executors/family_table.py"


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=[] if kind in PEOPLE_BRING else pytest.mark.slow) for kind in RUN_HERE]
)
def test_the_embedded_engine_trains_and_answers_with_every_type_it_says_it_runs(kind: str, tmp_path: Path) -> None:
    file = tmp_path / f"{kind}.json"
    file.write_text(json.dumps(model(kind).config))
    options = {"attention": "eager"}
    trainer = TorchTrainer()
    trainer.open(spec_of(training(model=str(file), options=options, point={"precision": "bf16"})), quiet)
    losses = [trainer.step().loss for _ in range(2)]
    assert all(loss is not None and loss > 0 for loss in losses)
    facts = TorchServer().open(spec_of(inference(model=str(file), options=options)), quiet)
    assert facts.work["resident_parameters"].value == parameters(model(kind).shape).total
