"""Comparisons and diagnoses in a browser: runs by id alone, the verdict first, refusals in words."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import urlencode

import pytest
from test_web_door import asked

from report_material import inference_run, training_run
from twinlens.errors import BadInput
from twinlens.web.ask.found import folder_of, newest, side_of
from twinlens.web.runs.index import Index


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("runs")
    training_run(root / "before", "fp32", rows=60)
    training_run(root / "after", "bf16", rows=60)
    inference_run(root / "serving", "fp32", rows=60)
    return root


@pytest.fixture(scope="module")
def url(served, folder: Path):  # type: ignore[no-untyped-def]
    with served(folder) as found:
        yield found


@pytest.fixture(scope="module")
def ids(folder: Path) -> dict[str, str]:
    """The id of the run in each folder."""
    return {Path(each.path).parent.name: each.id for each in Index((folder,)).listing().runs}


def at(path: str, *runs: str, **words: str) -> str:
    return f"{path}?{urlencode([*(('run', each) for each in runs), *words.items()])}"


def test_only_an_id_of_the_index_becomes_a_folder(folder: Path, ids: dict[str, str]) -> None:
    index = Index((folder,))
    assert folder_of(index, ids["before"]).parent.name == "before"
    assert side_of(index, f"{ids['before']}@batch=4") == f"{folder_of(index, ids['before'])}@batch=4"
    for word in ("..", "/etc", f"../{ids['before']}", f"{ids['before']}/..", "", "nowhere"):
        with pytest.raises(BadInput, match="there is no run"):
            folder_of(index, word)


def test_the_chosen_runs_stand_first_in_the_list(folder: Path, ids: dict[str, str]) -> None:
    listed = newest(Index((folder,)), (ids["after"], "nowhere"))
    assert [each.id for each in listed if each.is_chosen] == [ids["after"]]
    assert listed[0].id == ids["after"]
    assert len(listed) == 3
    assert " · training · " in listed[0].facts
    named = newest(Index((folder,)), (f"{ids['after']}@batch=4",))
    assert (named[0].id, len(named)) == (f"{ids['after']}@batch=4", 3), "a point that was typed stays"
    assert [each.id for each in newest(Index((folder,)), lens="inference")] == [ids["serving"]]


def test_a_run_alone_asks_for_another_beside_it(url: str, ids: dict[str, str]) -> None:
    status, _, body = asked(url, at("/compare", ids["before"]))
    assert status == 200
    assert "Choose another beside it" in body
    assert 'class="asking" open' in body


def test_two_runs_are_compared_with_the_verdict_first(url: str, ids: dict[str, str]) -> None:
    status, _, body = asked(url, at("/compare", ids["before"], ids["after"]))
    assert status == 200
    lead = body.index('class="lead')
    assert lead < body.index("<table") if "<table" in body else lead
    assert "twinlens compare " in body
    data = json.loads(asked(url, f"{at('/compare', ids['before'], ids['after'])}&as=json")[2])
    assert len(data["comparisons"]) == 1


def test_training_is_never_compared_with_inference(url: str, ids: dict[str, str]) -> None:
    _, _, body = asked(url, at("/compare", ids["before"], ids["serving"]))
    assert "Category error" in body


def test_a_ledger_and_a_history_are_views_of_the_same_runs(url: str, ids: dict[str, str]) -> None:
    status, _, body = asked(url, at("/compare", ids["before"], ids["after"], view="ledger", price_per_hour="2"))
    assert status == 200
    assert "--ledger --price-per-hour 2" in body
    status, _, body = asked(url, at("/compare", ids["before"], ids["after"], view="history"))
    assert "history" in body
    assert status == 400 or 'class="lead' in body  # two formats are no history of one


def test_wrong_words_are_said_and_the_choice_is_kept(url: str, ids: dict[str, str]) -> None:
    for words in ({"view": "ranking"}, {"metric": "<b>"}, {"view": "ledger", "price_per_hour": "free"}):
        status, _, body = asked(url, at("/compare", ids["before"], ids["after"], **words))
        assert status == 400
        assert 'role="alert"><p>' in body
        assert "<b>" not in body
        assert body.count("checked") >= 2


def test_a_run_is_diagnosed_by_its_id(url: str, ids: dict[str, str]) -> None:
    status, _, body = asked(url, at("/diagnose", ids["before"]))
    assert status == 200
    assert 'class="lead' in body
    assert "twinlens diagnose" in body


def test_without_runs_a_page_offers_those_there_are(url: str, ids: dict[str, str]) -> None:
    for path in ("/compare", "/diagnose"):
        status, _, body = asked(url, path)
        assert status == 200
        assert all(f'value="{id}"' in body for id in ids.values())
