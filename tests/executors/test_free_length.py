"""Answers as long as the model likes: nothing is forced, and an answer that ends by itself has ended well."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hostile_server import DONE, END, HEAD, Asked, chunk, hostile, said, usage
from hypothesis import given
from hypothesis import strategies as st

from material import inference, measured, run_json, spec_of, study_of
from twinlens.errors import BadInput
from twinlens.measurement.summary_file import summary_of
from twinlens.reporting.wording.finding import sentence_of
from twinlens.spec.load import dump, parse
from twinlens.spec.workload.workload import InferenceWorkload

SHORT = 3


def ends(finish: str | None, tokens: int = SHORT) -> Any:
    def behave(asked: Asked) -> None:
        count = min(tokens, asked.body["max_tokens"])
        parts = [*[said(content=" word")] * count, said(finish), usage(count), DONE]
        asked.send(HEAD + b"".join(map(chunk, parts)) + END)

    return behave


def served(url: str, output_tokens: Any) -> dict[str, Any]:
    return inference(
        "openai-http", arrival={"kind": "constant"}, point={"rate_per_s": 40.0}, output_tokens=output_tokens,
        options={"url": url, "timeout_s": 5.0}, protocol={"duration_s": 1.0, "min_rows": 1, "guards": True},
    )  # fmt: skip


@pytest.mark.parametrize("finish", ["stop", "tool_calls"])
def test_an_answer_that_ends_by_itself_is_a_good_one_and_its_tokens_are_counted(tmp_path: Path, finish: str) -> None:
    with hostile(ends(finish)) as server:
        run = measured(tmp_path, served(server.url, {"kind": "free", "most": 8}))
    rows = run.table.to_pylist()
    assert {(row["outcome"], row["output_tokens"], row["asked_tokens"]) for row in rows} == {("ok", SHORT, None)}
    bodies = [asked.body for asked in server.asked]
    assert all(body["max_tokens"] in (4, 8) for body in bodies)
    assert not any({"ignore_eos", "min_tokens"} & body.keys() for body in bodies)
    assert run.facts is not None
    assert any("The model chooses the length of each answer" in note for note in map(sentence_of, run.facts.findings))
    metrics = summary_of(run).metrics
    assert metrics["failed_share"].value == 0.0
    guards = {guard["id"]: guard["ruling"] for guard in run_json(run)["guards"]}
    assert guards["length"] != "fail"


@pytest.mark.slow
def test_at_its_limit_it_is_a_good_one_and_without_a_reason_it_was_cut_off(tmp_path: Path) -> None:
    for number, (behave, outcome) in enumerate(
        [(ends("length", 8), "ok"), (ends(None), "cut_off"), (ends("abort"), "cut_off")]
    ):
        with hostile(behave) as server:
            run = measured(tmp_path / str(number), served(server.url, {"kind": "free", "most": 8}))
        assert set(run.table.column("outcome").to_pylist()) == {outcome}


def test_a_forced_length_stays_what_it_was(tmp_path: Path) -> None:
    with hostile(ends("stop")) as server:
        run = measured(tmp_path, served(server.url, {"kind": "fixed", "value": 8}))
    assert set(run.table.column("outcome").to_pylist()) == {"cut_off"}
    assert {asked.body.get("min_tokens") for asked in server.asked} == {4, 8}


def test_the_word_alone_is_enough_and_survives_the_file() -> None:
    data = inference("fake", arrival={"kind": "poisson"}, point={"rate_per_s": 1.0}, output_tokens="free")
    study = study_of(data)
    assert isinstance(study.workload, InferenceWorkload)
    assert (study.workload.output_tokens.kind, study.workload.output_tokens.max) == ("free", 512)
    import tomllib

    assert parse(tomllib.loads(dump(study))) == study


@given(st.sampled_from(["input_tokens", "output_tokens"]))
def test_it_is_refused_where_it_means_nothing(field: str) -> None:
    says = "is for servers over HTTP" if field == "output_tokens" else "input_tokens"
    with pytest.raises(BadInput, match=says):
        spec_of(inference("fake", **{field: "free"}))
