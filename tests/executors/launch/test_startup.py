"""The start of a server as figures: the page cache before it, and the first two answers after it."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
import recorded
from test_launch_study import served

from material import measured, run_json
from plain_server import Plain, plain, stream
from twinlens.errors import BadInput
from twinlens.executors.launch.options import settings_of
from twinlens.executors.launch.runtime import vllm
from twinlens.executors.launch.startup import first_tokens
from twinlens.measurement.summary_file import summary_of
from twinlens.system.page_cache import cached_share, drop_pages

CHAT = "/v1/chat/completions"


@pytest.mark.skipif(sys.platform != "linux", reason="asks the kernel for its page cache")
def test_what_was_just_written_is_in_the_page_cache_until_it_is_dropped(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"w" * 3_000_001)
    (tmp_path / "empty.json").touch()
    assert cached_share(tmp_path) == 1.0
    assert cached_share(tmp_path / "model.safetensors") == 1.0
    drop_pages(sorted(tmp_path.iterdir()))
    share = cached_share(tmp_path)
    assert share is not None
    assert share <= 1.0, "a file system in memory keeps it; any other has dropped it"
    assert cached_share(tmp_path / "empty.json") is None


def test_the_first_two_answers_are_timed_by_their_first_token_and_not_by_a_role() -> None:
    role, word = {"choices": [{"delta": {"role": "assistant"}}]}, {"choices": [{"delta": {"content": " a"}}]}
    with plain(Plain(answers={CHAT: stream(role, word)})) as server:
        port = int(server.url.rpartition(":")[2])
        told = first_tokens(port, "small", "chat")
        prompts = [body["messages"][0]["content"] for _, path, _, body in server.asked if path == CHAT]
    assert set(told) == {"first_token_s", "second_token_s"}
    assert all(seconds > 0 for seconds in told.values())
    assert len(prompts) == 2
    assert prompts[0].split()[0] != prompts[1].split()[0], "a prefix cache finds nothing"


@pytest.mark.parametrize(
    "answer", [(500, {"error": "no"}), stream({"choices": [{"delta": {"role": "assistant"}}]}), stream({"x": 1})]
)
def test_a_server_without_a_token_has_no_first_token(answer: tuple[int, object]) -> None:
    with plain(Plain(answers={CHAT: answer})) as server:
        assert first_tokens(int(server.url.rpartition(":")[2]), "small", "chat") == {}


def test_a_run_on_a_launched_server_has_the_figures_of_its_start(tmp_path: Path, small_server: Path) -> None:
    run = measured(tmp_path, served(small_server))
    metrics = summary_of(run).metrics
    assert metrics["start_ready_s"].value == run_json(run)["server"]["ready_s"]
    assert (metrics["start_first_token_s"].value or 0) > 0
    assert (metrics["start_second_token_s"].value or 0) > 0
    assert metrics["start_weights_s"].value is None
    assert "does not say" in str(metrics["start_weights_s"].reason)
    if sys.platform == "linux":
        assert metrics["start_cached_share"].value == 1.0
        assert "page cache 100% warm" in metrics["start_ready_s"].method


def test_vllm_says_in_its_log_how_long_its_weights_took() -> None:
    assert re.findall(vllm.RECIPE.loaded, recorded.VLLM_LOG) == ["0.02"]


def test_dropping_the_page_cache_is_yes_or_no() -> None:
    with pytest.raises(BadInput, match="drop_page_cache is true or false"):
        settings_of("vllm", {"drop_page_cache": 1}, "python")
