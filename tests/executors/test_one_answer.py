"""Embeddings, rankings and images over HTTP: what is sent, what counts as an answer, and whole runs of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from material import IMAGES, fixed, inference, measured, quiet, spec_of
from one_answer_server import CLASSES, DIMENSION, SHAPE, OneAnswer, Twist, serving
from twinlens.errors import BadInput, ExecutorFailed
from twinlens.executors.kserve.executor import KServeServer
from twinlens.executors.openai.executor import OpenAIServer
from twinlens.executors.refuse import refuse_unsupported
from twinlens.measurement.attach import attach
from twinlens.network.dialect.one_answer import embedding_fault, rerank_fault, tensor_fault
from twinlens.record.codec import encode
from twinlens.record.executor.facts import Facts
from twinlens.record.request import Request
from twinlens.reporting.run.figures import figures_of
from twinlens.reporting.wording.finding import sentence_of
from twinlens.schedule.build import planned_load
from twinlens.stats.run_summary import summarise

EMBED = {"kind": "embed", "texts": 2}
RERANK = {"kind": "rerank", "documents": 3, "query_tokens": 4}
CLASSIFY = {"kind": "classify", "images": 2}


def asked_of(server: OneAnswer, task: dict[str, Any], *settings: str, **parts: Any) -> dict[str, Any]:
    """Spec data of closed-loop requests of a task to this server."""
    kserve = task["kind"] == "classify"
    options = {"url": server.url if kserve else f"{server.url}/v1", "model": "m"} | parts.pop("options", {})
    more = {"data": IMAGES} if kserve else {"input_tokens": fixed(5)}
    load = {"arrival": {"kind": "closed"}, "point": {"concurrency": 2}, "protocol": {"duration_s": 0.3, "min_rows": 40}}
    kind, model = ("kserve-http", "vit-tiny") if kserve else ("openai-http", "tiny")
    return inference(kind, model, options=options, task=task, **(more | load | parts))


def played(server: OneAnswer, data: dict[str, Any]) -> tuple[Facts, list[Request]]:
    rows: list[Request] = []
    spec = spec_of(data)
    client = KServeServer() if spec.executor.kind == "kserve-http" else OpenAIServer()
    try:
        facts = client.open(spec, quiet)
        client.play(planned_load(spec, 0.02).schedule, rows.append)
    finally:
        client.close()
    return facts, rows


@pytest.mark.parametrize("task", [EMBED, RERANK, CLASSIFY])
def test_a_good_answer_is_one_chunk_of_no_token_at_its_end(task: dict[str, Any]) -> None:
    with serving(OneAnswer()) as server:
        facts, rows = played(server, asked_of(server, task))
    assert len(rows) >= 40
    for row in rows:
        assert (row.outcome, row.status, row.output_tokens, row.chunk_tokens) == ("ok", 200, 0, (0,))
        assert row.chunk_ns == (row.end_ns,)
        assert row.intended_ns <= row.sent_ns < row.end_ns
    assert facts.findings[0].code == "one-answer"


def test_texts_are_sent_by_the_dozen_and_usage_says_how_many_tokens_they_are() -> None:
    with serving(OneAnswer()) as server:
        facts, rows = played(server, asked_of(server, EMBED, options={"body": {"dimensions": 6}}))
    path, headers, body, _ = server.asked[1]
    assert (path, body["model"], body["dimensions"], headers["accept"]) == (
        "/v1/embeddings",
        "m",
        6,
        "application/json",
    )
    assert [len(text.split()) for text in body["input"]] == [5, 5]
    assert len({text for _, _, asked, _ in server.asked for text in asked["input"]}) == 2 * len(server.asked)
    assert {row.input_tokens for row in rows} == {14}
    assert facts.findings[0].numbers == {"task": "embed", "items": 2, "width": DIMENSION}


@pytest.mark.parametrize(("endpoint", "names"), [("rerank", ("query", "documents")), ("score", ("text_1", "text_2"))])
def test_documents_are_ranked_by_a_query_through_either_endpoint(endpoint: str, names: tuple[str, str]) -> None:
    with serving(OneAnswer()) as server:
        _, rows = played(server, asked_of(server, RERANK, options={"endpoint": endpoint}))
    path, _, body, _ = server.asked[1]
    assert path == f"/v1/{endpoint}"
    assert len(body[names[0]].split()) == 4
    assert [len(text.split()) for text in body[names[1]]] == [5, 5, 5]
    assert {row.input_tokens for row in rows} == ({77} if endpoint == "rerank" else {4 + 3 * 5})


@pytest.mark.parametrize("binary", [True, False])
def test_images_are_sent_as_raw_bytes_or_as_json_and_no_two_are_equal(binary: bool) -> None:
    with serving(OneAnswer(extensions=("binary_tensor_data",) if binary else ())) as server:
        played(server, asked_of(server, CLASSIFY))
    sent = set()
    for path, headers, body, raw in server.asked[1:]:
        tensor = body["inputs"][0]
        values = np.frombuffer(raw, "<f4") if binary else np.array(tensor["data"], np.float32)
        assert path == "/v2/models/m/infer"
        assert (tensor["shape"], tensor["datatype"], values.size) == ([2, *SHAPE], "FP32", 2 * np.prod(SHAPE))
        assert headers["content-type"] == ("application/octet-stream" if binary else "application/json")
        assert 0 <= values.min() < values.max() < 1
        sent.add(values.tobytes())
    assert len(sent) == len(server.asked) - 1


def _short(said: dict[str, Any], number: int) -> Any:
    for name in ("data", "results", "outputs"):
        if name in said:
            said[name] = said[name][:-1]
    return said


def _changed(value: float) -> Twist:
    def twist(said: dict[str, Any], number: int) -> Any:
        if number:
            entry = next(said[name] for name in ("data", "results", "outputs") if name in said)[0]
            for name in ("embedding", "data"):
                if name in entry:
                    entry[name][0] = value
            if "relevance_score" in entry:
                entry["relevance_score"] = value
        return said

    return twist


@pytest.mark.parametrize("task", [EMBED, RERANK, CLASSIFY])
def test_a_number_that_is_not_finite_is_no_answer(task: dict[str, Any]) -> None:
    with serving(OneAnswer(_changed(float("nan")))) as server:
        _, rows = played(server, asked_of(server, task))
    assert {row.outcome for row in rows} == {"failed"}
    assert all("finite" in str(row.error) for row in rows)
    assert all(row.chunk_ns == () for row in rows)


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ((429, {"error": "slow down"}), "HTTP 429"),
        ((200, b"<html>"), "not JSON"),
        ({"error": {"message": "no"}}, "the server says: no"),
        ({}, "0 vectors for 2 texts"),
    ],
)
def test_what_holds_no_answer_has_failed(said: Any, why: str) -> None:
    with serving(OneAnswer(lambda good, number: said if number else good)) as server:
        _, rows = played(server, asked_of(server, EMBED))
    assert {row.outcome for row in rows} == {"refused" if "429" in why else "failed"}
    assert all(why in str(row.error) for row in rows)


def test_a_server_whose_first_answer_is_wrong_is_not_measured() -> None:
    with serving(OneAnswer(_short)) as server:
        for task in (EMBED, RERANK):
            with pytest.raises(ExecutorFailed, match=r"does not answer a short request: . (vectors|scores) for"):
                played(server, asked_of(server, task))
        with pytest.raises(ExecutorFailed, match="does not classify an image: the answer holds no output"):
            played(server, asked_of(server, CLASSIFY))
        server.twist = lambda said, number: said
        with pytest.raises(ExecutorFailed, match=f"a vector of {DIMENSION} numbers, not 8"):
            played(server, asked_of(server, EMBED | {"dimension": 8}))


def test_vectors_are_checked_by_count_length_numbers_and_order() -> None:
    ones = [{"embedding": [1.0, 2.0]}, {"embedding": [3, 4]}]
    assert embedding_fault({"data": ones}, 2, None) is None
    assert embedding_fault({"data": ones}, 2, 2) is None
    assert embedding_fault({"data": ones}, 3, 2) == "2 vectors for 3 texts"
    assert embedding_fault({"data": ones}, 2, 3) == "a vector of 2 numbers, not 3"
    wrong = {"a vector holds something else than numbers": [None, 1.0], "a vector is empty or all zero": [0.0, 0.0]}
    for why, vector in wrong.items():
        assert embedding_fault({"data": [{"embedding": vector}]}, 1, 2) == why
    twice = [{"embedding": [1.0], "index": 0}] * 2
    assert embedding_fault({"data": twice}, 2, 1) == "results do not name each item once"


def test_scores_and_tensors_are_checked_by_count_and_shape() -> None:
    scores = [{"index": 1, "relevance_score": 0.1}, {"index": 0, "relevance_score": -2}]
    assert rerank_fault({"results": scores}, 2) is None
    assert rerank_fault({"results": [scores[0]] * 2}, 2) == "results do not name each item once"
    assert (
        rerank_fault({"results": [{"index": 0, "relevance_score": True}]}, 1) == "a relevance_score is no finite number"
    )
    tensor = {"shape": [2, 3], "data": [[1, 2, 3], [4, 5, 6]]}
    assert tensor_fault({"outputs": [tensor]}, 2, 3) is None
    assert tensor_fault({"outputs": [tensor]}, 2, 4) == "3 numbers for an image, not 4"
    assert tensor_fault({"outputs": [tensor]}, 1, None) == "an output of shape [2, 3] for 1 images"
    assert (
        tensor_fault({"outputs": [tensor | {"shape": [2, 4]}]}, 2, None)
        == "the output says the shape [2, 4] and holds 6 numbers"
    )


@pytest.mark.parametrize(
    ("task", "rate", "items"),
    [
        (EMBED, "embedded_texts_per_s", 2),
        (RERANK, "reranked_documents_per_s", 3),
        (CLASSIFY, "inference_images_per_s", 2),
    ],
)
def test_a_run_of_answers_in_one_piece_has_its_rates_and_no_latency_of_tokens(
    task: dict[str, Any], rate: str, items: int, tmp_path: Path
) -> None:
    with serving(OneAnswer()) as server:
        run = measured(tmp_path, asked_of(server, task, slo={"e2e_latency_s": 5.0}))
    metrics = summarise(run).metrics
    assert metrics[rate].value == pytest.approx(items * metrics["requests_per_s"].value)
    assert metrics["e2e_latency_s_p50"].value > 0
    assert metrics["slo_attainment"].value == 1
    assert metrics["goodput_per_s"].value > 0
    assert metrics["failed_share"].value == 0
    assert ("input_tokens_per_s" in metrics) == (task is not CLASSIFY)
    for name in ("ttft_s_p50", "tpot_s_p99", "itl_s_p90"):
        assert metrics[name].value is None
        assert metrics[name].reason == "an answer in one piece has no tokens to time"
    assert "output_tokens_per_s" not in metrics


def test_input_tokens_per_s_counts_the_tokens_of_answered_requests(tmp_path: Path) -> None:
    with serving(OneAnswer(lambda said, number: said if number % 2 == 0 else (500, {}))) as server:
        run = measured(tmp_path, asked_of(server, EMBED))
    metrics = summarise(run).metrics
    assert metrics["input_tokens_per_s"].value == pytest.approx(14 * metrics["requests_per_s"].value)
    assert 0.3 < metrics["failed_share"].value < 0.7


@pytest.mark.parametrize(
    ("task", "what"),
    [(EMBED, "embeddings"), (RERANK, "scores of documents"), (CLASSIFY, "classes of images")],
)
def test_the_first_screen_says_that_answers_in_one_piece_are_compared_with_nothing(
    task: dict[str, Any], what: str, tmp_path: Path
) -> None:
    with serving(OneAnswer()) as server:
        run = measured(tmp_path, asked_of(server, task))
    absent = dict(figures_of(run, summarise(run)).absent)
    assert absent["top-1 agreement"] == f"{what} over HTTP are checked in form and compared with no reference"


@pytest.mark.parametrize(("counted", "shown"), [(-1, "-1"), (2**30, "1073741824"), (True, "true"), ("12", '"12"')])
def test_a_count_of_input_tokens_that_cannot_be_fails_the_request(counted: Any, shown: str) -> None:
    def twisted(said: Any, number: int) -> Any:
        return said if number == 0 else {**said, "usage": {"prompt_tokens": counted}}

    with serving(OneAnswer(twisted)) as server:
        _, rows = played(server, asked_of(server, EMBED))
    assert {row.outcome for row in rows} == {"failed"}
    assert {row.error for row in rows} == {f"the server counts what cannot be: prompt_tokens {shown}"}


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"slo": {"ttft_s": 1.0}}, "workload.slo.ttft_s limits tokens"),
        ({"arrival": {"kind": "lockstep"}, "point": {}}, "needs requests over HTTP"),
        ({"prefix": {"tokens": 8}}, "workload.prefix means nothing"),
        ({"data": IMAGES}, "does not fit workload.data.kind"),
    ],
)
def test_what_an_answer_in_one_piece_cannot_have_is_refused(more: dict[str, Any], why: str) -> None:
    with pytest.raises(BadInput, match=why):
        planned_load(spec_of(asked_of(OneAnswer(url="http://h"), EMBED, **more)))


def test_executors_refuse_a_task_they_do_not_have() -> None:
    closed = {"arrival": {"kind": "closed"}, "point": {"concurrency": 1}}
    with pytest.raises(BadInput, match="transformers-serve answers tasks of kind generate, not 'embed'"):
        refuse_unsupported(spec_of(inference("transformers-serve", task=EMBED, **closed)))
    with pytest.raises(BadInput, match="kserve-http answers tasks of kind classify, not 'generate'"):
        refuse_unsupported(spec_of(inference("kserve-http", "vit-tiny", **closed)))
    with pytest.raises(BadInput, match=r"does not fit workload\.task\.kind = 'embed', which asks embeddings"):
        OpenAIServer().open(spec_of(asked_of(OneAnswer(url="http://h"), EMBED, options={"endpoint": "score"})), quiet)


@pytest.mark.parametrize(
    ("server", "why"),
    [
        (OneAnswer(ready=503), r"is not ready by the KServe v2 protocol \(GET /v2/health/ready: HTTP 503\)"),
        (OneAnswer(tensor={"name": "x", "datatype": "BYTES", "shape": [-1, 1]}), "takes BYTES, and images are sent as"),
        (
            OneAnswer(tensor={"name": "x", "datatype": "FP32", "shape": [-1, 3, -1, -1]}),
            "leaves the shape of an image open",
        ),
    ],
)
def test_a_model_that_takes_no_images_is_named_with_the_reason(server: OneAnswer, why: str) -> None:
    with serving(server), pytest.raises((BadInput, ExecutorFailed), match=why):
        played(server, asked_of(server, CLASSIFY))
    assert not server.asked


def test_an_open_shape_is_closed_by_an_option_and_another_model_is_not_there() -> None:
    open_shape = OneAnswer(tensor={"name": "x", "datatype": "UINT8", "shape": [-1, 3, -1, -1]}, extensions=())
    with serving(open_shape) as server:
        played(server, asked_of(server, CLASSIFY, options={"shape": list(SHAPE)}))
        assert {type(value) for value in server.asked[0][2]["inputs"][0]["data"]} == {int}
        with pytest.raises(ExecutorFailed, match=r"says nothing of a model 'other' .HTTP 404."):
            played(server, asked_of(server, CLASSIFY, options={"model": "other"}))


def test_a_url_and_a_task_are_enough_and_the_run_is_measured_like_any_other(tmp_path: Path) -> None:
    with serving(OneAnswer()) as server:
        task = ["workload.task.kind=embed", "workload.task.texts=3", "point.concurrency=2"]
        study = attach(server.url, settings=[*task, "workload.arrival.kind=closed"])
        assert not [path for path, *_ in server.asked if "chat" in path], "nobody asks it for tokens"
        spec = study.point_runs()[0]
    assert (spec.executor.kind, spec.workload.model, spec.workload.task.texts) == ("openai-http", "m", 3)
    assert spec.executor.options["url"] == f"{server.url}/v1"


def test_the_sentence_on_answers_in_one_piece_says_what_counts(tmp_path: Path) -> None:
    with serving(OneAnswer()) as server:
        run = measured(tmp_path, asked_of(server, CLASSIFY))
    found = next(f for f in summarise(run).findings if f.code == "one-answer")
    assert json.loads(json.dumps(encode(found)))["numbers"]["width"] == CLASSES
    assert sentence_of(found) == (
        f"Each answer comes in one piece, so it has no TTFT and no TPOT; it counts only if it holds 2 rows of class "
        f"scores each of {CLASSES} finite numbers. Images are sent as FP32 [3, 4, 4], raw bytes."
    )
