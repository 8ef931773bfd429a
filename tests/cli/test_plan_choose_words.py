"""A choice says what it doubts and how its devices are sold, and finds a device as people write it."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from twinlens.api.plan.reading.subject import device_of
from twinlens.cli.main import app
from twinlens.spec.catalogue import shipped


@pytest.mark.parametrize("name", ["RTX4090", "RTX 4090", "rtx_4090", "4090"])
def test_a_device_is_found_as_people_write_it(name: str) -> None:
    assert device_of(name, shipped())[0].name == "rtx-4090"


def test_the_first_screen_says_what_is_unverified_and_how_a_module_is_sold() -> None:
    words = ("plan", "choose", "--model", "8B", "--inference", "100", "--users", "1", "--among", "mi350x")
    shown = CliRunner().invoke(app, [*words])
    assert shown.exit_code == 0, shown.stderr
    text = " ".join(shown.stdout.split())
    assert "rates of mi350x are unverified" in text
    assert "mi350x in boards of 8" in text
    assert "8 × mi350x" in text
    assert "twice gives" not in text
    assert "of 5" not in text
