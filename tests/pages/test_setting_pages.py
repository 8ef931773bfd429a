"""Every setting that a tuning may vary has a page, a row of the reference, and a row of its list."""

from __future__ import annotations

import pytest

from each import each
from twinlens.api.reference import explain
from twinlens.api.reference import list as list_
from twinlens.errors import BadInput
from twinlens.reporting.reference.document import reference
from twinlens.reporting.reference.setting_page import SettingRow, setting_rows
from twinlens.tuning.setting import shipped, tunable_kinds


@each(setting_rows(), lambda row: row.setting.name)
def test_a_setting_is_explained_by_its_name_and_by_its_path(row: SettingRow) -> None:
    by_path = explain(row.setting.path)
    assert f"## {row.setting.name}, a setting of {row.kinds} that a tuning may vary" in by_path
    assert row.setting.about in by_path
    assert all(f"- of {kind}: {source}" in by_path for kind, source in row.sources)
    assert row.setting.about in explain(row.setting.name) or row.setting.path in explain(row.setting.name)


def test_every_setting_that_ships_stands_in_the_reference() -> None:
    text = reference()
    for kind in tunable_kinds():
        for each_ in shipped(kind):
            line = next(line for line in text.splitlines() if line.startswith(f"| `{each_.name}` | `{each_.path}` |"))
            assert line.count(" | ") == 6
    assert sum(len(row.sources) for row in setting_rows()) == sum(len(shipped(kind)) for kind in tunable_kinds())


def test_settings_are_listed_by_executor_and_of_one_executor_each_with_its_values() -> None:
    kinds = {row["executor"]: row["settings"] for row in list_("settings")}
    assert tuple(kinds) == tunable_kinds()
    assert (
        kinds["llama-cpp-engine"]
        == "batch, threads, max_batched_tokens, flash_attention, kv_format, precision, power_limit_w"
    )
    rows = {row["setting"]: row for row in list_("settings", "vllm")}
    assert rows["chunked_prefill"]["all"] == "true, false"
    assert rows["kv_format"]["tier"] == "precision"
    with pytest.raises(BadInput, match="no settings ship for 'vlm'; did you mean 'vllm'"):
        list_("settings", "vlm")
    with pytest.raises(BadInput, match="`list links` takes no name; known: devices, models, settings"):
        list_("links", "nvlink")
