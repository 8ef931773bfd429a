from __future__ import annotations

from pathlib import Path

import pytest

from report_material import Pair, study


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory) -> list[Pair]:
    """Eighteen runs: two training and four inference points, three repeats; one inference run slows."""
    return study(Path(tmp_path_factory.mktemp("demo")))
