"""A run in which nearly nothing was answered is no finished run: real sockets, and the command line."""

from __future__ import annotations

import json
from pathlib import Path

from click.testing import CliRunner, Result
from hostile_server import Asked, answer, good, hostile

from material import inference, study_of
from twinlens.cli.main import app
from twinlens.spec.load import dump


def call(*words: str | Path) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words])


def spec(folder: Path, url: str) -> Path:
    """Forty requests in a second, at a steady rate."""
    file = folder / "short.toml"
    options = {"url": url, "model": "served"}
    asked = inference("openai-http", arrival={"kind": "constant"}, point={"rate_per_s": 40.0}, options=options,
                      protocol={"duration_s": 1.0, "min_rows": 10})  # fmt: skip
    file.write_text(dump(study_of(asked)))
    return file


def test_a_server_that_dies_in_mid_run_is_said_first_and_exits_3(tmp_path: Path) -> None:
    def dying(asked: Asked) -> None:
        if asked.number < 15:
            asked.send(answer(asked.tokens))
        else:
            asked.reset()

    with hostile(dying) as server:
        done = call("measure", spec(tmp_path, server.url), "--out", tmp_path / "a", "-q")
    assert done.exit_code == 3, done.stderr
    assert "TL310" in done.stderr
    head = "\n".join(done.stdout.splitlines()[:8])
    assert "✗ The server was gone after" in head
    assert "the connection broke: Connection reset" in head.replace("\n", " ")
    data = json.loads(call("show", tmp_path / "a", "--json").stdout)
    assert data["findings"][0]["code"] == "server-died"
    assert data["state"] == "finished", "its rows are whole, and it is not ranked"


def test_answers_that_end_by_themselves_are_said_to_and_the_server_is_not_said_to_heed_the_length(
    tmp_path: Path,
) -> None:
    def short(asked: Asked) -> None:
        asked.send(answer(min(3, asked.tokens)))

    with hostile(short) as server:
        done = call("measure", spec(tmp_path, server.url), "--out", tmp_path / "a", "-q")
    assert done.exit_code == 3, done.stderr
    assert "requests were cut off: 3 of 6 tokens, finish_reason length" in " ".join(done.stdout.split())
    everything = call("show", tmp_path / "a", "--all").stdout
    assert "accepts and ignores" in " ".join(everything.split())


def test_good_answers_exit_0_and_nothing_is_said_of_failures(tmp_path: Path) -> None:
    with hostile(good) as server:
        done = call("measure", spec(tmp_path, server.url), "--out", tmp_path / "a", "-q")
    assert done.exit_code == 0, done.stderr
    assert "cut off:" not in done.stdout
