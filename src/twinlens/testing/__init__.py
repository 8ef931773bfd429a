"""The contract of executors, as tests that any package can run with pytest.

from twinlens.testing import conformance

TestMine = conformance("mine")
"""

import pytest

pytest.register_assert_rewrite(
    *(f"twinlens.testing.{name}" for name in ("definition", "evidence", "training", "serving", "exchanging"))
)

from twinlens.testing.suite import conformance  # noqa: E402

__all__ = ["conformance"]
