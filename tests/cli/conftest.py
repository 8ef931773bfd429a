from __future__ import annotations

from pathlib import Path

import pytest

from material import for_rows, inference, measured, study_of, training
from twinlens.measurement.study import measure_study
from twinlens.spec.load import dump


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    """A spec file that takes no time: the fake executor, in this process."""
    file = tmp_path / "small.toml"
    file.write_text(dump(study_of(training("fake"))))
    return file


@pytest.fixture(scope="session")
def measured_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a training study of two points and two repeats, and one inference run."""
    out = tmp_path_factory.mktemp("runs")
    protocol = {"repeats": 2} | for_rows(60)
    measure_study(study_of(training("fake", sweep={"precision": ["fp32", "bf16"]}, protocol=protocol)), out)
    measured(out, inference("fake", protocol=for_rows(60)))
    return out
