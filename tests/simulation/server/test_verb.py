"""`simulate --serve` from the command line, as the page on it shows."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from simulated_server import get

from material import command, twinlens

PAGE = (Path(__file__).parents[3] / "docs" / "simulated-server.md").read_text(encoding="utf-8")


def test_the_page_s_table_is_served_and_its_client_answered_until_it_is_interrupted(tmp_path: Path) -> None:
    law, script = (re.search(rf"```{kind}\n(.*?)```", PAGE, re.DOTALL) for kind in ("toml", "python"))
    asked = re.search(r"\$ twinlens (simulate chat --law .*)", PAGE)
    assert law
    assert script
    assert asked
    (tmp_path / "law.toml").write_text(law[1], encoding="utf-8")
    words = [*asked[1].split(), "--port", "0", "--fail", "429=0"]
    process = subprocess.Popen(command(*words), stderr=subprocess.PIPE, text=True, cwd=tmp_path)
    assert process.stderr is not None
    try:
        started = process.stderr.readline()
        found = re.match(r"SIMULATED, at (http://127\.0\.0\.1:\d+/v1); 1 simulated s in each s", started)
        assert found, started
        assert get(f"{found[1]}/models").data["data"][0]["simulated"]["law"]["parts"][0]["fixed_s"] == 0.012
        (tmp_path / "ask.py").write_text(script[1].replace("http://127.0.0.1:8100/v1", found[1]), encoding="utf-8")
        lines = subprocess.run([sys.executable, "ask.py"], capture_output=True, text=True, cwd=tmp_path).stdout.split(
            "\n"
        )
        assert lines[0] == "quoted; speed=1"
        assert lines[-3:] == ["data: [DONE]", "", ""]
        process.send_signal(signal.SIGINT)
        assert re.fullmatch(r"simulated: 8 tokens were written, .* later than due on average, .* at most\n",
                            process.stderr.read())  # fmt: skip
        assert process.wait(10) == 0
    finally:
        process.kill()
        process.wait()
        process.stderr.close()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--serve", "--host", "0.0.0.0"), "TL246"),
        (("--serve", "--fail", "cut=2"), "TL246"),
        (("--serve", "--seeds", "3"), "leave --serve out"),
        (("--serve", "--replicas", "2", "--routing", "random,prefix"), "a simulated server has one router"),
        (("--serve", "--signal-age", "1s"), "--signal-age is of a router between replicas, and there is one"),
        (("--port", "3"), "it goes with --serve"),
    ],
)
def test_what_cannot_be_is_one_sentence_and_exit_code_2(tmp_path: Path, words: tuple[str, ...], says: str) -> None:
    (tmp_path / "law.toml").write_text("fixed_s = 0.01", encoding="utf-8")
    told = twinlens("simulate", "chat", "--law", tmp_path / "law.toml", *words)
    assert told.returncode == 2
    assert says in told.stderr
    assert "Traceback" not in told.stderr
