"""The first page: two lenses side by side, what is not measured said, three ways to begin; and packs as pages."""

from __future__ import annotations

import json
import os
import re
import shutil
import time
from pathlib import Path
from urllib.request import urlopen

from report_material import inference_run, training_run
from twinlens.measurement.summary_file import store_summary
from twinlens.web.work.job import new_folder, start, stop

PACK = Path(__file__).parents[2] / "docs/results/2026-11-22-paired-xeon-2core/evidence.zip"


def got(url: str) -> str:
    with urlopen(url, timeout=60) as answer:
        return str(answer.read().decode())


def settled(url: str) -> str:
    """The page once its figures are there; a page that never settles fails by the clock of whoever waits."""
    for _ in range(600):
        page = got(url)
        if "data-renew" not in page:
            return page
        time.sleep(0.05)
    raise AssertionError("the page goes on asking")


def test_without_runs_there_are_three_ways_each_with_what_it_does(served, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    with served(tmp_path) as url:
        page = got(url)
        assert len(re.findall(r"<article class=\"box\"><h2>", page)) == 3
        form = re.search(r'<form method="post" action="/jobs">.*?</form>', page, re.DOTALL)
        assert form
        assert 'name="verb" value="demo"' in form[0]
        assert "about six" in page
        assert "twinlens browse FOLDER" in page
        assert "docs/results" in page
        assert json.loads(got(f"{url}?as=json")) == {"runs": 0, "training": None, "inference": None}


def test_the_newest_of_a_lens_stands_with_its_interval_and_the_other_is_said_to_be_missing(
    served, tmp_path: Path
) -> None:  # type: ignore[no-untyped-def]
    for regime in ("bf16", "fp32"):
        store_summary(training_run(tmp_path / "2026-01-01T000000Z_study", regime, rows=60)[0])
    (tmp_path / "2026-01-01T000000Z_study" / "study.json").write_text("{}")
    with served(tmp_path) as url:
        page = settled(url)
        assert page.index('<h2 id="panel-training">') < page.index("Inference was not measured here")
        assert page.count('class="rate"') == 2
        assert 'href="/runs/2026-01-01T000000Z_study"' in page
        assert "total" not in re.sub(r"<[^>]+>", " ", page).lower().split()
        data = json.loads(got(f"{url}?as=json"))
        assert data["training"]["metric"] == "training_tokens_per_s"
        assert data["training"]["of_this_machine"] is True
        assert data["inference"] is None


def test_a_lens_that_gave_nothing_valid_was_measured_and_says_why(served, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    store_summary(training_run(tmp_path, rows=60)[0])
    store_summary(inference_run(tmp_path, rows=6)[0])
    with served(tmp_path) as url:
        page = settled(url)
        assert "Inference was measured, and nothing of it is valid. The newest run: too short" in page
        assert "Inference was not measured" not in page
        assert 'href="/runs?lens=inference">its runs, and why each is not valid' in page


def test_a_file_of_the_first_page_has_its_figures_at_once(served, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    store_summary(training_run(tmp_path, rows=60)[0])
    with served(tmp_path) as url:
        assert 'class="rate"' in got(f"{url}?as=html")


def test_a_job_that_goes_on_is_on_the_first_page_until_it_is_over(served, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "sleeping.py").write_text("import time\ntime.sleep(60)")
    job = start(new_folder(tmp_path), ["demo"], {**os.environ, "PYTHONPATH": str(tmp_path)}, module="sleeping")
    with served(tmp_path) as url:
        page = got(url)
        assert f'href="/jobs/{job.id}">watch it' in page
        assert 'id="begin" data-renew' in page
        assert "disabled>Run the demo" in page
        stop(job)
        assert "disabled>Run the demo" not in settled(url)


def test_a_pack_below_the_folders_is_a_page_and_nothing_is_written_beside_it(served, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    folder = tmp_path / "packs"
    folder.mkdir()
    shutil.copy(PACK, folder / "evidence.zip")
    (folder / "broken-evidence.zip").write_bytes(b"PK\x03\x04 no zip")
    with served(folder, out=tmp_path) as url:
        links = re.findall(r'href="(/packs/[^"]+)"', got(url))
        assert len(links) == 2
        pages = {link: got(url.rstrip("/") + link) for link in links}
        assert sorted('id="panel-' in page for page in pages.values()) == [False, True]
        assert any("is no zip file that can be read" in page for page in pages.values())
    assert sorted(each.name for each in folder.iterdir()) == ["broken-evidence.zip", "evidence.zip"]
