"""A run in other tools' figures: by their names, equal to arithmetic by hand, never of what they have none of."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import twinlens as tl
from material import inference, measured
from served_material import served_run
from twinlens.cli.main import app
from twinlens.errors import BadInput
from twinlens.pages import find
from twinlens.record.run import Run
from twinlens.reporting.comparing.peers import TOOL_NAMES
from twinlens.stats.peers.names import peer_names


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return served_run(tmp_path_factory.mktemp("served"), 6.0, seconds=20.0)[0]


def test_vllms_figures_are_those_of_its_own_arithmetic(run: Run) -> None:
    found = tl.peers(run, "vllm")
    rows = run.requests
    ttft_ms = (rows.first_chunk_ns() - rows.sent_ns)[rows.outcome == "ok"] / 1e6
    assert found["p99_ttft_ms"].value == pytest.approx(np.percentile(ttft_ms, 99))
    assert found["mean_ttft_ms"].value == pytest.approx(ttft_ms.mean())


@pytest.mark.parametrize("tool", TOOL_NAMES)
def test_every_tool_can_be_asked_for_by_name_and_its_page_says_how(run: Run, tool: str) -> None:
    result = CliRunner().invoke(app, ["show", str(run.folder), "--as", tool])
    assert result.exit_code == 0, result.output
    mark = f"{tool.replace('-', '_')}."
    names = [key.removeprefix(mark) for key in peer_names() if key.startswith(mark)]
    assert names
    for name in names:
        assert name[:48] in result.stdout
    page = " ".join(find(tool).text.split())
    assert f"show RUN --as {tool}" in page
    assert f'tl.peers(run, "{tool}")' in page


def test_the_same_figures_as_json_under_the_tools_own_names(run: Run) -> None:
    result = CliRunner().invoke(app, ["show", str(run.folder), "--as", "vllm", "--json"])
    data = json.loads(result.stdout)
    assert (data["run"], data["tool"]) == (run.id, "vllm")
    assert data["figures"]["p99_ttft_ms"]["value"] == tl.peers(run, "vllm")["p99_ttft_ms"].value


def test_a_tool_that_is_not_known_and_a_run_that_it_has_no_figures_of_are_refused(run: Run, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="did you mean 'vllm'"):
        tl.peers(run, "vlm")
    with pytest.raises(BadInput, match="in lockstep: vLLM has figures of served requests only"):
        tl.peers(measured(tmp_path, inference("fake")), "vllm")
    assert CliRunner().invoke(app, ["show", str(run.folder), "--as", "vlm"]).exit_code == 2
