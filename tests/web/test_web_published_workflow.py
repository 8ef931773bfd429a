"""The workflow that the docs offer: valid YAML, with rights to read alone, and commands that do what they say."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

import twinlens as tl
from material import for_rows, measured, training

WORKFLOW = Path(__file__).parents[2] / "docs" / "publish-results.yml"


@pytest.fixture(scope="module")
def workflow() -> dict[Any, Any]:
    found: dict[Any, Any] = yaml.safe_load(WORKFLOW.read_text(encoding="utf-8"))
    return found


def test_a_pull_request_is_checked_with_rights_to_read_alone(workflow: dict[Any, Any]) -> None:
    assert set(workflow[True]) == {"push", "pull_request"}, "`on` is true in YAML 1.1; never pull_request_target"
    assert workflow["permissions"] == {"contents": "read"}
    main = "github.ref == 'refs/heads/main'"
    writes = [job for job in workflow["jobs"].values() if "write" in str(job.get("permissions"))]
    assert writes
    assert all(job["if"] == main for job in writes)
    for job in workflow["jobs"].values():
        assert all("@v" in step["uses"] for step in job["steps"] if "uses" in step)


@pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="needs ssh-keygen, which is not here")
def test_its_commands_make_a_site_of_signed_packs_and_stop_at_a_changed_one(
    workflow: dict[Any, Any], tmp_path: Path
) -> None:
    make = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / "key")]
    subprocess.run(make, check=True, capture_output=True)
    kind, key, *_ = (tmp_path / "key.pub").read_text().split()
    (tmp_path / "allowed_signers").write_text(f"lab@example.org {kind} {key}\n")
    run = measured(tmp_path / "runs", training("fake", protocol=for_rows(20)))
    (tmp_path / "packs").mkdir()
    pack = tl.evidence(run, to=tmp_path / "packs" / "one.zip", key=tmp_path / "key")
    check, make_site = (step["run"] for step in workflow["jobs"]["site"]["steps"] if "twinlens " in step.get("run", ""))
    done = _bash(f"{check}\n{make_site}", tmp_path)
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "site" / "packs" / "one" / "index.html").read_text("utf-8")
    assert "Signed, and as it was signed" in page
    assert "lab@example.org" in page
    with pack.open("ab") as file:
        file.write(b"more")
    assert _bash(check, tmp_path).returncode != 0


def _bash(commands: str, at: Path) -> subprocess.CompletedProcess[str]:
    """As the host of the workflow runs them: each line must succeed."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    return subprocess.run(["bash", "-e", "-o", "pipefail", "-c", commands], cwd=at, env={**os.environ, "PATH": path},
                          capture_output=True, text=True, timeout=300)  # fmt: skip
