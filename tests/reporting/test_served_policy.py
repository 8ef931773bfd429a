"""Ways of batching in one table: told apart in every label, what they held back beside them, and one to take."""

from __future__ import annotations

from dataclasses import replace
from html import unescape
from pathlib import Path

import pytest

from report_material import Pair, whole_text
from served_material import served_run
from twinlens.reporting.load_kind import kind_of, policy_of
from twinlens.reporting.point_name import point_names
from twinlens.reporting.report.page import render
from twinlens.reporting.text.policies import choices
from twinlens.reporting.view import view
from twinlens.stats.summary.group import group

POLICIES = {
    "static 8": {"admission": "static", "batch": 8},
    "dynamic 8, 50.0 ms": {"admission": "dynamic", "batch": 8, "timeout_s": 0.05},
    "continuous 16": {"admission": "continuous", "in_flight": 16},
}


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> list[Pair]:
    folder = tmp_path_factory.mktemp("policies")
    late = {"static 8": 0.4, "dynamic 8, 50.0 ms": 0.05, "continuous 16": 0.0001}
    return [
        served_run(folder, 8.0, point=point, late_s=late[name], repeat=repeat)
        for name, point in POLICIES.items()
        for repeat in range(3)  # within a run of 480 requests a latency has no interval to choose by
    ]


def test_a_policy_has_a_name_in_words() -> None:
    assert [policy_of(point) for point in POLICIES.values()] == list(POLICIES)
    assert policy_of({"precision": "fp32", "batch": 8}) == ""


def test_points_that_differ_in_their_policy_are_told_apart_in_every_name(pairs: list[Pair]) -> None:
    groups = group(summary for _, summary in pairs)
    assert len({kind_of(one) for one in groups}) == 3
    names = point_names(groups)
    assert len(set(names)) == 3
    for name, policy in zip(names, POLICIES, strict=True):
        assert policy in name
        assert "timeout_s" not in name, "a policy's fields are in its own words already"


def test_points_of_several_executors_bear_their_names(pairs: list[Pair]) -> None:
    kinds = ("onnxruntime-served", "openvino-served", "transformers-serve")
    runs = [replace(pairs[0][1], executor=kind, run=kind, identity=kind) for kind in kinds]
    groups = group(runs)
    assert [kind_of(one) for one in groups] == [
        f"bf16, {name}, static 8" for name in ("onnxruntime", "openvino", "transformers")
    ]
    text = whole_text(groups)
    assert all(name in text for name in ("onnxruntime", "openvino", "transformers"))
    assert "onnxruntime" not in kind_of(group(runs[:1])[0]), "one executor needs no name"


def test_the_terminal_shows_what_each_policy_held_and_which_one_to_take(pairs: list[Pair]) -> None:
    groups = group(summary for _, summary in pairs)
    text = whole_text(groups)
    assert max(map(len, text.splitlines())) <= 80
    for policy in ("static 8", "dynamic 8", "continuous"):
        assert text.count(policy) >= 2, f"{policy} stands in both tables"
    for head in ("queued", "blocked", "gathering"):
        assert head in text
    assert "take continuous 16" in " ".join(text.split())


def test_the_sentence_says_so_where_policies_cannot_be_told_apart(tmp_path: Path) -> None:
    alike = [served_run(tmp_path, 8.0, point=point) for point in list(POLICIES.values())[1:]]
    first, second = choices(group(summary for _, summary in alike))
    assert "cannot be told apart" in first
    assert "p99 TTFT" in first
    assert "p99 latency" in second
    alone = served_run(tmp_path, 8.0, point=POLICIES["static 8"])
    assert choices(group([alone[1]])) == ()


def test_the_page_has_them_too_and_a_line_of_its_own_for_each(pairs: list[Pair]) -> None:
    page = render(view(pairs))
    for policy in POLICIES:
        assert page.count(f"bf16, {policy}") >= 3, "a row in both tables, and a line in the legend of a chart"
    assert "Held back in front of the server" in page
    runs = [run for run, _ in pairs]
    groups = group(summary for _, summary in pairs)
    screen = " ".join(whole_text(groups, pairs).split())
    for sentence in choices(groups, {run.id: run for run in runs}):
        assert "on the same" in sentence
        assert sentence[1:] in unescape(page)
        assert sentence in screen, "screen and page say the same"
    assert "take continuous 16" in page


def two_ways(folder: Path) -> list[Pair]:
    """One run 0.4 s slower than the other on the same arrivals, with nothing asked of when requests are let out."""
    made = [served_run(folder, 8.0, point=POLICIES[name], late_s=late_s)
            for name, late_s in (("static 8", 0.4), ("continuous 16", 0.0001))]  # fmt: skip
    plain_point = {"precision": "bf16", "rate_per_s": 8.0}
    return [(run, replace(summary, point=plain_point, identity=run.id)) for run, summary in made]


def test_executors_and_switches_that_met_the_same_arrivals_are_chosen_by_their_tail_too(tmp_path: Path) -> None:
    slow, fast = two_ways(tmp_path)
    runs = {run.id: run for run, _ in (slow, fast)}
    ways = {
        "openvino": [replace(slow[1], executor="onnxruntime-served"), replace(fast[1], executor="openvino-served")],
        "default": [replace(slow[1], options={"prefix_caching": False}), replace(fast[1], identity="default")],
    }
    for name, summaries in ways.items():
        groups = group(summaries)
        first, _ = choices(groups, runs)
        assert first.startswith(f"{name} has the lowest p99 TTFT, ")
        assert "on the same" in first
        assert first.endswith(f"by p99 TTFT take {name}.")
        assert first in " ".join(whole_text(groups, [slow, fast]).split())
        assert choices(groups) == (), "without their rows nobody knows whether they met the same arrivals"


def test_a_policy_is_chosen_by_its_executor_and_its_name_where_both_differ(pairs: list[Pair]) -> None:
    runs = [replace(summary, executor=kind, identity=f"{summary.identity}{kind}", run=f"{summary.run}{kind}")
            for kind in ("onnxruntime-served", "openvino-served") for _, summary in pairs]  # fmt: skip
    first, _ = choices(group(runs))
    assert "openvino, continuous 16" in first
    assert "onnxruntime, continuous 16" in first


def test_the_page_says_which_executor_to_take(tmp_path: Path) -> None:
    slow, fast = two_ways(tmp_path)
    made = [
        (slow[0], replace(slow[1], executor="onnxruntime-served")),
        (fast[0], replace(fast[1], executor="openvino-served")),
    ]
    page = unescape(render(view(made)))
    assert "by p99 TTFT take openvino." in page
