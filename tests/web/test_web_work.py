"""Measuring from the page: what may be asked, and jobs that live on without the browser and without the site."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlencode, urlsplit

import pytest
from tests.web.asking import Site, site_at

from twinlens.errors import BadInput
from twinlens.gateway.address import address_of
from twinlens.record.store import create_study, update_study
from twinlens.spec.load import load_example
from twinlens.spec.source.example import example
from twinlens.tuning.ledger import Begun, Ledger
from twinlens.web.work.asked import asked_of, study_of, words_of
from twinlens.web.work.job import Job, find_job, jobs, new_folder, start, stop
from twinlens.web.work.progress import written_by

QUICK = {
    "example": "decode",
    "set": "executor.kind=fake\npoint.precision=fp32\nprotocol.repeats=1\nprotocol.duration_s=3\nprotocol.steady_s=1",
    "at": "batch=1",
}


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="module")
def site(served, out: Path) -> Iterator[Site]:  # type: ignore[no-untyped-def]
    with served(out) as url:
        yield site_at(url)


@pytest.mark.parametrize(
    "setting",
    [
        "executor.options.python=sh",
        "executor.options={command='sh'}",
        "sweep.executor.options.python=['sh']",
        "variants=[{'executor.options.log'='log'}]",
        "executor.options.api_key_env=HOME",
        "workload.task.path=passages",
        "workload.input_tokens={kind='empirical', path='lengths'}",
        "workload.model=../model",
        "workload.model=~",
    ],
)
def test_a_setting_that_may_name_a_program_a_file_or_a_secret_is_refused_before_it_is_read(setting: str) -> None:
    with pytest.raises(BadInput) as refused:
        study_of(asked_of({"example": "serve-vllm", "set": setting}))
    assert refused.value.code == "TL271"


def test_a_pasted_spec_may_say_no_more_than_a_setting() -> None:
    spec = "[workload]\nkind='training'\nmodel='gpt2'\n[executor]\nkind='trainer-log'\noptions={command='sh'}"
    with pytest.raises(BadInput, match=r"executor\.options\.command is not set from a page"):
        study_of(asked_of({"text": spec}))


def test_what_an_example_says_itself_may_stay_and_numbers_may_change() -> None:
    asked = asked_of({"example": "serve-vllm", "set": "executor.options.replicas=1\nprotocol.repeats=2"})
    study = study_of(asked)
    assert study is not None
    assert study.protocol.repeats == 2


def test_a_wrong_field_is_answered_as_on_the_command_line() -> None:
    with pytest.raises(BadInput, match=r"unknown field 'protocol\.repeat'; did you mean 'repeats'"):
        study_of(asked_of({"example": "chat", "set": "protocol.repeat=2"}))


def test_words_of_a_form_are_words_of_one_command_and_none_is_an_option_of_its_own() -> None:
    asked = asked_of({"url": "127.0.0.1:8000/v1", "model": "--help", "at": "--out=/etc", "set": "--fresh"})
    assert words_of(asked, Path("runs")) == [
        "measure", "--url=http://127.0.0.1:8000/v1", "--model=--help", "--at=--out=/etc", "--set=--fresh", "--out=runs",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "address",
    ["169.254.169.254/latest", "http://[fe80::1]/", "http://[::ffff:169.254.169.254]/", "http://100.100.100.200",
     "file:///etc/passwd", "http://u:p@127.0.0.1", "http://127.0.0.1/?key=1", "http://127.0.0.1:99999", "http://",
     "http://0xA9FEA9FE/", "http://[64:ff9b::a9fe:a9fe]/", "http://224.0.0.1"],
)  # fmt: skip
def test_no_address_of_secrets_is_asked(address: str) -> None:
    with pytest.raises(BadInput):
        address_of(address)


@pytest.mark.parametrize("address", ["127.0.0.1:8000/v1", "http://10.0.0.7/v1", "[::1]:80", "https://192.168.1.2/"])
def test_servers_on_loopback_and_private_addresses_may_be_asked(address: str) -> None:
    assert address_of(address).startswith("http")


def test_the_form_shows_what_theory_says_and_starts_what_was_checked(site: Site) -> None:
    status, body = site.get(f"/measure?{urlencode(QUICK)}")
    assert status == 200
    assert "can be measured here" in body
    assert 'action="/jobs"' in body
    status, body = site.get(f"/measure?{urlencode({**QUICK, 'set': 'protocol.repeat=2'})}")
    assert status == 200
    assert "did you mean" in body
    assert 'action="/jobs"' not in body


def test_a_pasted_spec_may_be_long_and_comes_in_the_body(site: Site) -> None:
    text = "# long\n" * 3000 + example("decode").text
    status, _, body = site.post("/measure", {"text": text, "key": "s3cret"})
    assert status == 200
    assert "can be measured here" in body
    assert "s3cret" not in body
    status, _, body = site.post("/measure", {"text": "[executor.options]\npython='sh'"})
    assert status == 200
    assert "executor.options.python is not set from a page" in body


def test_script_in_every_field_is_text(site: Site) -> None:
    enemy = "<script>alert(1)</script>"
    for verb in ("measure", "tune", "burnin"):
        for name in ("example", "url", "model", "at", "set", "text", "for"):
            _, body = site.get(f"/measure?{urlencode({'verb': verb, name: enemy})}")
            assert enemy not in body


def test_a_measurement_is_started_watched_and_linked_to_its_runs(site: Site, out: Path) -> None:
    status, headers, body = site.post("/jobs", QUICK)
    assert status == 303, body
    place = headers["Location"]
    status, _, body = site.post("/jobs", QUICK)
    assert status == 400
    assert "two at once would disturb each other" in body
    job = _over(out, place)
    assert (job.state, job.verb) == ("done", "measure"), job.said()
    _, body = site.get(place)
    (study,) = [folder.name for folder in out.iterdir() if (folder / "study.json").is_file()]
    assert f'href="/runs/{study}"' in body
    assert "1 of 1 runs" in body
    assert json.loads(site.get(f"{place}?as=json")[1])["exit_code"] == 0


def test_only_four_verbs_are_started_and_nothing_is_begun_by_a_refused_one(site: Site, out: Path) -> None:
    before = len(jobs(out))
    for fields in ({"verb": "browse"}, {"verb": "measure", "example": "../chat"}, {"verb": "measure"}):
        status, _, body = site.post("/jobs", fields)
        assert (status, "TL2" in body) == (400, True)
    assert len(jobs(out)) == before


def test_a_job_is_stopped_as_by_ctrl_c_and_found_by_another_site(served, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    job = _sleeping(tmp_path)
    with served(tmp_path) as url:
        site = site_at(url)
        _, body = site.get("/jobs")
        assert f'href="/jobs/{job.id}"' in body
        assert "running" in body
        assert site.post(f"/jobs/{job.id}/stop", {})[0] == 303
    assert _over(tmp_path, job.id).state == "stopped"


def test_a_job_whose_processes_were_killed_is_gone_and_not_running(tmp_path: Path) -> None:
    job = _sleeping(tmp_path)
    os.killpg(int(job.process["pid"]), 9)
    _until(lambda: find_job(tmp_path, job.id).state == "gone")  # type: ignore[union-attr]
    stop(job)  # nothing is there to be told


def test_a_job_folder_of_another_is_read_as_far_as_it_is_one(served, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    folder = new_folder(tmp_path)
    enemy = "<img src=x onerror=alert(1)>"
    record = {"words": [enemy, enemy], "started_utc": enemy, "begun_s": 1, "process": {"pid": 1}}
    (folder / "job.json").write_text(json.dumps(record))
    (folder / "err.txt").write_text(f"{enemy}\x1b[2J\n" * 3)
    os.mkfifo(folder / "out.txt")
    (folder / "exit").write_text("2")
    other = new_folder(tmp_path)
    (other / "job.json").write_text("[[")
    with served(tmp_path) as url:
        for path in ("/jobs", f"/jobs/{folder.name}", f"/jobs/{folder.name}/state"):
            status, body = site_at(url).get(path)
            assert status == 200
            assert enemy not in body
        assert site_at(url).get(f"/jobs/{other.name}")[0] == 404
        assert site_at(url).get("/jobs/..%2F..%2Fetc")[0] == 404


def test_trials_and_windows_are_counted_in_the_folders_of_the_job_alone(tmp_path: Path) -> None:
    job = Job(tmp_path / "job", ("tune",), time.time(), {}, os.getpid(), None, None)
    tuning = create_study(tmp_path, load_example("tune-inference"))
    ledger = Ledger(tuning)
    ledger.add(Begun("bound", "0", ""))
    (tmp_path / "burnin").mkdir()
    (tmp_path / "burnin" / "burnin.json").write_text("{}")
    (tmp_path / "burnin" / "windows.jsonl").write_text("{}\n{}\n")
    update_study(create_study(tmp_path, load_example("decode")), pid=1)  # of another process
    found = {each.what: each for each in written_by(job, tmp_path)}
    assert found.keys() == {"tuning", "burn-in"}
    assert (found["tuning"].done, found["tuning"].planned) == (0, load_example("tune-inference").tune.budget.trials)  # type: ignore[union-attr]
    assert (found["burn-in"].done, found["burn-in"].planned) == (2, None)


def test_a_run_of_a_job_is_called_by_its_point_and_what_is_no_record_has_none(tmp_path: Path) -> None:
    study = create_study(tmp_path, load_example("decode"))
    for name, asked in (("a", {"point": {"precision": "fp32", "batch": 8, "rate_per_s": None}, "repeat": 1}),
                        ("b", {"point": {"precision": "bf16", "rate_per_s": 2.5}}), ("c", [])):  # fmt: skip
        (study / name).mkdir()
        (study / name / "run.json").write_text(json.dumps({"asked": asked, "state": "finished"}))
    (found,) = written_by(Job(tmp_path / "job", ("measure",), time.time(), {}, os.getpid(), None, None), tmp_path)
    assert [point for _, point, _ in found.runs] == ["fp32, batch 8, repeat 2", "bf16, 2.5 requests/s", "?"]
    assert found.done == 3


def _sleeping(out: Path) -> Job:
    """A job that does nothing for a minute, with its handler of interrupts in place."""
    (out / "sleeping.py").write_text("import time\nprint('asleep', flush=True)\ntime.sleep(60)")
    job = start(new_folder(out), ["measure"], {**os.environ, "PYTHONPATH": str(out)}, module="sleeping")
    _until(lambda: job.printed() == ["asleep"])
    return job


def _over(out: Path, place: str) -> Job:
    name = urlsplit(place).path.rpartition("/")[2]
    _until(lambda: (found := find_job(out, name)) is not None and found.state != "running")
    found = find_job(out, name)
    assert found is not None
    return found


def _until(is_so: Callable[[], bool], longest_s: float = 120.0) -> None:
    until_s = time.monotonic() + longest_s
    while not is_so():
        assert time.monotonic() < until_s
        time.sleep(0.05)
