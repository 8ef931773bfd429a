"""`twinlens evidence`: packs of real runs, made, signed, checked, changed; and hostile words in run folders."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from benchmarks.published import PACKS, published
from click.testing import CliRunner, Result

import twinlens as tl
from material import for_rows, study_of, training
from twinlens.cli.main import app
from twinlens.record.store import find_runs

RESULTS = published()
URL = RESULTS / "2026-11-22-url-epyc-2core"
needs_ssh = pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="needs ssh-keygen, which is not here")


def call(*words: str | Path) -> Result:
    return CliRunner().invoke(app, ["evidence", *map(str, words)])


@pytest.fixture(scope="module")
def pack(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A pack of a published study of three points, each with the log of its executor, unsigned."""
    study = shutil.copytree(URL, tmp_path_factory.mktemp("study"), dirs_exist_ok=True)
    for run in find_runs(study):
        (run.folder / "log.txt").write_text("what the executor printed\n", encoding="utf-8")
    return tl.evidence(study, to=tmp_path_factory.mktemp("pack") / "evidence.zip", name="A. Person")


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A pack of one run of that study, for what each run of a pack is held to; a check computes each run again."""
    return tl.evidence(find_runs(URL)[0].folder, to=tmp_path_factory.mktemp("small") / "evidence.zip")


def one_run(to: Path) -> Path:
    """A study folder with one run of that study."""
    run = find_runs(URL)[0].folder
    shutil.copytree(run, to / run.parent.name / run.name)
    return to


def rewritten(pack: Path, to: Path, **changes: bytes | None) -> Path:
    """The pack with files changed, added, or (None) taken out; `README_txt` is README.txt."""
    known = {name.replace("_", "."): data for name, data in changes.items()}
    with zipfile.ZipFile(pack) as old, zipfile.ZipFile(to, "w") as new:
        for name in dict.fromkeys([*old.namelist(), *known]):
            data = known.get(name, old.read(name) if name in old.namelist() else None)
            if data is not None:
                new.writestr(name, data)
    return to


def test_a_pack_has_rows_spec_facts_report_tables_and_says_who(pack: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(pack) as file:
        names = file.namelist()
        about = json.loads(file.read("evidence.json"))
        file.extractall(tmp_path)
    ends = {name.rpartition("/")[2] for name in names}
    assert ends >= {"requests.arrows", "run.json", "spec.toml", "report.html", "show.txt", "comparison.txt",
                    "README.txt", "SHA256SUMS"}  # fmt: skip
    assert "log.txt" not in ends
    assert about["measured_by"] == {"name": "A. Person", "organisation": None, "contact": None, "role": None}
    assert [run["id"] for run in about["runs"]] == [run.id for run in find_runs(URL)]
    assert "log.txt" in {file["file"] for file in about["runs"][0]["files"] if not file["packed"]}
    again = [tl.summary(run).metrics for run in tl.read(tmp_path / "runs")]
    assert again == [tl.summary(run).metrics for run in tl.read(URL)]
    done = subprocess.run(["sha256sum", "--quiet", "-c", "SHA256SUMS"], cwd=tmp_path, capture_output=True, check=False)
    assert done.returncode == 0, done.stdout


def test_a_pack_that_is_whole_passes_and_says_that_it_is_not_signed(pack: Path) -> None:
    told = call("--verify", pack)
    assert told.exit_code == 0, told.stderr
    assert told.stdout.startswith("The pack fits its own checksums.\n! Not signed")
    assert "measured by  A. Person" in told.stdout


def resigned(pack: Path, to: Path, change: Callable[[dict[str, bytes]], None]) -> Path:
    """The pack with files changed by somebody who makes its checksums anew."""
    with zipfile.ZipFile(pack) as old:
        files = {name: old.read(name) for name in old.namelist() if not name.startswith("SHA256SUMS")}
    change(files)
    sums = "".join(f"{hashlib.sha256(data).hexdigest()}  {name}\n" for name, data in sorted(files.items()))
    with zipfile.ZipFile(to, "w") as new:
        for name, data in (files | {"SHA256SUMS": sums.encode()}).items():
            new.writestr(name, data)
    return to


def named(files: dict[str, bytes], end: str) -> str:
    return next(name for name in sorted(files) if name.endswith(end))


def test_every_figure_of_a_pack_follows_from_its_rows(pack: Path) -> None:
    found = {each.code: each.numbers for each in tl.verify(pack).findings}
    with zipfile.ZipFile(pack) as file:
        stated = sum(len(json.loads(file.read(name))["metrics"]) for name in file.namelist() if "figures" in name)
    assert found["pack-figures-follow"]["follow"] == found["pack-figures-follow"]["figures"] > stated / 2 > 0
    told = call("--verify", pack).stdout
    assert f"{found['pack-figures-follow']['figures']} of" in told
    assert "figures follow from the rows" in told


def test_a_forged_figure_with_new_checksums_is_named_with_what_the_rows_say(small: Path, tmp_path: Path) -> None:
    def forge(files: dict[str, bytes]) -> None:
        name = named(files, "/figures.json")
        data = json.loads(files[name])
        data["metrics"]["output_tokens_per_s"]["value"] = 999_999.0
        files[name] = json.dumps(data).encode()

    other = resigned(small, tmp_path / "forged.zip", forge)
    told = call("--verify", other)
    assert told.exit_code == 1
    assert "1 of " in told.stdout
    assert "output_tokens_per_s is stated as 999999.0 and computed as" in " ".join(told.stdout.split())


@pytest.mark.parametrize(("name", "old", "new"), [("show.txt", b"2/s", b"9/s"), ("report.html", b"2/s", b"9/s")])
def test_a_forged_text_with_new_checksums_is_named(
    pack: Path, tmp_path: Path, name: str, old: bytes, new: bytes
) -> None:
    def forge(files: dict[str, bytes]) -> None:
        assert old in files[name]
        files[name] = files[name].replace(old, new)

    found = tl.verify(resigned(pack, tmp_path / "forged.zip", forge)).findings[0]
    assert (found.code, found.numbers["names"]) == ("pack-texts-differ", [name])


def in_json(name: str, change: Callable[[dict[str, Any]], object]) -> Callable[[dict[str, bytes]], None]:
    """One JSON file of a pack changed."""

    def forge(files: dict[str, bytes]) -> None:
        found = named(files, name)
        data = json.loads(files[found])
        change(data)
        files[found] = json.dumps(data).encode()

    return forge


def without(end: str) -> Callable[[dict[str, bytes]], None]:
    return lambda files: [files.pop(name) for name in list(files) if name.endswith(end)] and None


def in_report(words: bytes) -> Callable[[dict[str, bytes]], None]:
    return lambda files: files.update({"report.html": files["report.html"].replace(b"</body>", words + b"</body>")})


FORGED: dict[str, tuple[Callable[[dict[str, bytes]], None], str]] = {
    "a machine": (in_json("evidence.json", lambda d: d["runs"][0].update(machine="8 x H100")), "pack-figures-differ"),
    "a model": (in_json("evidence.json", lambda d: d["runs"][0].update(model="405b")), "pack-figures-differ"),
    "no run told": (in_json("evidence.json", lambda d: d.update(runs=[])), "pack-figures-differ"),
    "no figures": (without("/figures.json"), "pack-figures-differ"),
    "a figure left out": (
        in_json("/figures.json", lambda d: d["metrics"].pop("output_tokens_per_s")),
        "pack-figures-differ",
    ),
    "another unit": (
        in_json("/figures.json", lambda d: d["metrics"]["output_tokens_per_s"].update(unit="ktokens/s")),
        "pack-figures-differ",
    ),
    "findings left out": (in_json("/figures.json", lambda d: d.update(findings=[])), "pack-figures-differ"),
    "a figure in a drawing": (in_report(b"<svg><text>999,999 tokens/s</text></svg>"), "pack-texts-differ"),
    "a script in a drawing": (in_report(b"<svg onload='a()'><script>a()</script></svg>"), "pack-texts-differ"),
    "a readme": (lambda files: files.update({"README.txt": b"999,999 tokens/s"}), "pack-texts-differ"),
    "a file of its own": (lambda files: files.update({"results.pdf": b"999,999"}), "pack-added"),
    "no runs": (
        lambda files: [files.pop(each) for each in list(files) if each[:5] == "runs/"] and None,
        "pack-unreadable",
    ),
    "no words on itself": (lambda files: files.update({"evidence.json": b"[]"}), "pack-unreadable"),
}


@pytest.mark.parametrize("what", FORGED)
def test_whatever_of_a_pack_is_forged_it_does_not_pass(small: Path, tmp_path: Path, what: str) -> None:
    forge, code = FORGED[what]
    found = tl.verify(resigned(small, tmp_path / "forged.zip", forge))
    assert not found.is_good
    assert code in [each.code for each in found.findings if each.severity == "disqualifies"]


def test_other_paths_of_a_drawing_are_said_and_are_no_forgery(pack: Path, tmp_path: Path) -> None:
    def redraw(files: dict[str, bytes]) -> None:
        files["report.html"] = files["report.html"].replace(b' d="M', b' d="M1', 1)

    found = tl.verify(resigned(pack, tmp_path / "drawn.zip", redraw))
    assert found.is_good
    assert "pack-drawings-differ" in [each.code for each in found.findings]


@pytest.mark.parametrize(
    "private", ["sk-" + "abcdefghij" * 9, "home/" + "alexandra" * 8, "u:password-of-mine@gateway.example.org"]
)
def test_a_long_private_word_is_broken_over_no_lines_and_the_pack_verifies(tmp_path: Path, private: str) -> None:
    one_run(tmp_path / "study")
    for record in (tmp_path / "study").rglob("run.json"):
        text = record.read_text()
        assert "http://127.0.0.1:8000/v1" in text
        record.write_text(text.replace("http://127.0.0.1:8000/v1", f"http://{private}/v1"))
    made = tl.evidence(tmp_path / "study", to=tmp_path / "evidence.zip")
    assert tl.verify(made).is_good
    with zipfile.ZipFile(made) as file:
        texts = "".join(file.read(name).decode("utf-8", "replace") for name in file.namelist())
    assert private[-12:-1] not in texts.replace("\n", "").replace(" ", "")


def test_a_pack_of_two_folders_verifies_and_compares_them_as_they_were_given(tmp_path: Path) -> None:
    runs = find_runs(URL)
    made = tl.evidence(runs[2].folder, runs[1].folder, to=tmp_path / "evidence.zip")
    assert tl.verify(made).is_good
    with zipfile.ZipFile(made) as file:
        text = file.read("comparison.txt").decode()
    assert text.index(f"A  {runs[2].folder.name}") < text.index(f"B  {runs[1].folder.name}")


def test_texts_of_a_valid_study_hold_no_place_of_the_machine_that_packed_it(tmp_path: Path) -> None:
    """The next step of each of its runs names the study, which lay in a temporary folder: no such pack passed."""
    tl.measure(study_of(training("fake", protocol={"repeats": 2} | for_rows(40))), tmp_path / "runs", watch=None)
    made = tl.evidence(tmp_path / "runs", to=tmp_path / "evidence.zip", name="A. Person")
    with zipfile.ZipFile(made) as file:
        shown = file.read("show.txt").decode()
    assert "Show the whole study: twinlens show" in shown
    assert "twinlens-pack-" not in shown
    assert tl.verify(made).is_good


def test_rows_that_cannot_be_are_named(small: Path, tmp_path: Path) -> None:
    def forge(files: dict[str, bytes]) -> None:
        name = named(files, "/requests.arrows")
        rows = pa.ipc.open_stream(files[name]).read_all()
        early, more = pc.add(rows["intended_ns"], -1_000_000), pc.add(rows["asked_tokens"], 1)
        rows = rows.set_column(rows.column_names.index("sent_ns"), "sent_ns", early)
        rows = rows.set_column(rows.column_names.index("output_tokens"), "output_tokens", more)
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, rows.schema) as stream:
            stream.write_table(rows)
        files[name] = sink.getvalue().to_pybytes()
        files.pop(f"{name}.crc32", None)

    found = tl.verify(resigned(small, tmp_path / "forged.zip", forge))
    assert {"pack-figures-differ", "pack-implausible"} <= {each.code for each in found.findings}
    impossible = {each.numbers["what"] for each in found.findings if each.code == "pack-implausible"}
    assert impossible >= {"sent-before-due", "tokens-above-limit"}


def test_damaged_rows_and_a_deep_record_in_a_pack_are_one_sentence(pack: Path, tmp_path: Path) -> None:
    def cut(files: dict[str, bytes]) -> None:
        name = named(files, "/requests.arrows")
        files[name] = files[name][:-40]

    def deepen(files: dict[str, bytes]) -> None:
        files["evidence.json"] = b'{"runs":' + b"[" * 60_000
        files[named(files, "/run.json")] = b'{"schema":' + b"[" * 60_000

    for change in (cut, deepen):
        told = call("--verify", resigned(pack, tmp_path / "spoilt.zip", change))
        assert told.exit_code == 1
        assert "cannot be computed again" in told.stdout


def test_a_pack_of_an_edited_summary_holds_the_figures_of_its_rows(tmp_path: Path) -> None:
    one_run(tmp_path / "study")
    run = find_runs(tmp_path / "study")[0].folder
    (run / "summary.json").write_text('{"metrics": {"output_tokens_per_s": {"value": 999999}}}')
    file = tl.evidence(tmp_path / "study", to=tmp_path / "e.zip")
    with zipfile.ZipFile(file) as made:
        assert b"999999}" not in b"".join(map(made.read, made.namelist()))
    assert tl.verify(file).is_good


def test_json_of_a_new_pack_says_where_it_is_and_its_checksum(tmp_path: Path) -> None:
    file = tmp_path / "new.zip"
    told = call(find_runs(URL)[0].folder, "-o", file, "--json")
    assert told.exit_code == 0, told.stderr
    said = json.loads(told.stdout)
    assert (said["pack"], said["signed"]) == (str(file.resolve()), False)
    assert said["sha256"] == hashlib.sha256(file.read_bytes()).hexdigest()


def test_a_long_name_of_a_changed_file_keeps_its_end(pack: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(pack) as zipped:
        long = max((name for name in zipped.namelist() if name.endswith("/run.json")), key=len)
    assert len(long) > 80
    other = tmp_path / "other.zip"
    with zipfile.ZipFile(pack) as zipped, zipfile.ZipFile(other, "w") as changed:
        for name in zipped.namelist():
            changed.writestr(name, b"{}" if name == long else zipped.read(name))
    told = call("--verify", other)
    assert told.exit_code == 1
    assert "/run.json." in told.stderr, "the name of the file, not only of its folder"


@pytest.mark.parametrize(
    ("changes", "code", "named"),
    [
        ({"show_txt": b"p50 1 ms"}, "pack-changed", "show.txt"),
        ({"report_html": None}, "pack-missing", "report.html"),
        ({"virus_exe": b"x"}, "pack-added", "virus.exe"),
    ],
)
def test_what_was_changed_is_named_and_the_exit_code_is_1(
    pack: Path, tmp_path: Path, changes: dict[str, bytes | None], code: str, named: str
) -> None:
    other = rewritten(pack, tmp_path / "other.zip", **changes)
    told = call("--verify", other, "--json")
    data = json.loads(told.stdout)
    assert (told.exit_code, data["good"]) == (1, False)
    assert (data["findings"][0]["code"], data["findings"][0]["numbers"]["names"]) == (code, [named])
    assert named in told.stderr
    assert "TL100" in told.stderr


def test_who_measured_is_not_told_from_a_changed_part(pack: Path, tmp_path: Path) -> None:
    other = rewritten(pack, tmp_path / "other.zip", evidence_json=b'{"measured_by": {"name": "Mallory"}}')
    assert "Mallory" not in call("--verify", other).stdout


@needs_ssh
def test_a_signature_says_whose_it_is_and_a_changed_list_is_not_signed(tmp_path: Path) -> None:
    key, signers, file = tmp_path / "key", tmp_path / "signers", tmp_path / "signed.zip"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", key], check=True)
    signers.write_text(f"me@lab {key.with_suffix('.pub').read_text()}")
    assert call(find_runs(URL)[0].folder, "-o", file, "--key", key).exit_code == 0
    codes = [each.code for each in tl.verify(file).findings]
    assert codes == ["pack-signer-unknown", "pack-whole", "pack-figures-follow"]
    known = tl.verify(file, signers)
    assert (known.is_good, known.findings[1].code, known.findings[1].subject) == (True, "pack-signed", "me@lab")
    signers.write_text(f"other@lab ssh-ed25519 {'A' * 68}\n")
    assert call("--verify", file, "--signers", signers).exit_code == 1
    with zipfile.ZipFile(file) as old:
        sums = old.read("SHA256SUMS")
    forged = rewritten(file, tmp_path / "forged.zip", SHA256SUMS=sums.replace(sums[:8], b"00000000", 1))
    assert {"pack-changed", "pack-signature-wrong"} <= {each.code for each in tl.verify(forged).findings}
    assert key.read_bytes()[40:80] not in file.read_bytes()


def test_an_unsigned_pack_fails_where_a_signer_is_asked_for(pack: Path, tmp_path: Path) -> None:
    (tmp_path / "signers").write_text("me@lab ssh-ed25519 AAAA\n")
    assert call("--verify", pack, "--signers", tmp_path / "signers").exit_code == 1


def test_hostile_words_in_a_run_folder_never_get_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "correct-horse-battery")
    study = tmp_path / "study"
    one_run(study)
    run = find_runs(study)[0].folder
    words = ["/home/mallory", "sk-abcdefghijklmnopqrstuvwxyz", "correct-horse-battery", "AAAAB3NzaC1yc2"]
    record = json.loads((run / "run.json").read_text())
    record["facts"]["notes"] = [f"served from {words[0]}/models with {words[1]} and {words[2]}"]
    (run / "run.json").write_text(json.dumps(record))
    rows = run / "requests.arrows"
    plain = rows.read_bytes()
    (run / "log.txt").write_text(" ".join(words))
    (run / "id_ed25519").write_text(f"-----BEGIN OPENSSH PRIVATE KEY-----\n{words[3]}\n")
    (run / "schedule.arrow").unlink()
    (run / "schedule.arrow").symlink_to(run / "id_ed25519")
    (run / ".netrc").symlink_to("/etc/hostname")
    file = tl.evidence(study, to=tmp_path / "e.zip")
    with zipfile.ZipFile(file) as made:
        contents = {name: made.read(name) for name in made.namelist()}
    for name, data in contents.items():
        assert not [word for word in (*words, "mallory") if word.encode() in data], name
    assert plain in contents.values()
    assert not [name for name in contents if name.endswith(f"{run.name}/schedule.arrow") or "id_ed25519" in name]
    about = json.loads(contents["evidence.json"])
    (mine,) = [each for each in about["runs"] if each["id"] == run.name]
    assert "id_ed25519" in {each["file"] for each in mine["files"]}
    assert about["covered_words"] == 3
    assert tl.verify(file).is_good


def test_rows_with_a_home_folder_in_an_error_stay_readable_rows(tmp_path: Path) -> None:
    import pyarrow as pa

    from twinlens.pack.run_folder import Cover, take
    from twinlens.record.arrow import RowWriter

    path = tmp_path / "requests.arrows"
    writer = RowWriter(path, pa.schema([("error", pa.string()), ("n", pa.int64())]), most=2)
    writer.add_all([{"error": f"no file /home/mallory/{n}", "n": n} for n in range(5)])
    writer.close()
    copies, files = take(tmp_path, ("requests.arrows",), Cover())
    table = pa.ipc.open_stream(copies["requests.arrows"]).read_all()
    assert table["error"].to_pylist() == [f"no file /home/*******/{n}" for n in range(5)]
    assert sum(each.covered for each in files) == 5
    (tmp_path / "copy").mkdir()
    for name, data in copies.items():
        (tmp_path / "copy" / name).write_bytes(data)
    from twinlens.record.checksum import refuse_other_bytes

    copy = tmp_path / "copy" / "requests.arrows"
    with pa.OSFile(str(copy)) as source:
        refuse_other_bytes(copy, source, copy.stat().st_size)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "-o FILE.zip"),
        (("nowhere", "-o", "x.zip"), "no run folder"),
        (("-o", "x.zip"), "evidence of what"),
        ((URL, "-o", "nowhere/x.zip"), "no folder 'nowhere'"),
        ((URL, "-o", "x.zip", "--role", "king"), "a role is one of"),
        ((URL, "-o", "x.zip", "--name", "\x1b[2J"), "the name is a line"),
        ((URL, "-o", "x.zip", "--key", "nokey"), "no key file"),
        (("--verify", "nowhere.zip"), "no file"),
        (("--verify", __file__), "no zip file"),
    ],
)
def test_bad_input_of_evidence_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str | Path, ...], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    told = call(*words)
    assert (told.exit_code, told.stderr.count("\n")) == (2, 1)
    assert said in told.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_folder_with_an_escape_code_in_its_name_commands_no_terminal(tmp_path: Path) -> None:
    (run,) = URL.glob("*/*_32c9")
    shutil.copytree(run, tmp_path / "a\x1b[31m[red]<b>" / run.name)
    told = call(tmp_path / "a\x1b[31m[red]<b>", "--for", "rate_per_s=8")
    assert told.exit_code == 0, told.stderr
    assert "twinlens measure" in told.stdout
    assert "a[31m[red]<b>" in told.stdout
    assert "\x1b" not in told.stdout


def test_verbs_read_a_pack_as_they_read_the_folder_that_it_was_made_of() -> None:
    (pack,) = (each for each in PACKS if each.parent.name == URL.name)
    told = [CliRunner().invoke(app, ["show", str(place)]) for place in (pack, URL)]
    assert told[0].stdout.replace(str(pack), str(URL)) == told[1].stdout
    assert [run.id for run in tl.read(pack)] == [run.id for run in tl.read(URL)]
    assert sorted(each.name for each in pack.parent.iterdir()) == ["evidence.zip", "shown.txt"]


def test_a_folder_with_a_pack_is_read_and_named_as_the_folder() -> None:
    results = Path(__file__).parents[2] / "docs" / "results"
    folders = [results / name for name in (URL.name, "2026-11-22-ledger-epyc-2core")]  # the two least to read
    by_folder, by_pack = (
        CliRunner().invoke(app, ["show", str(path)]) for path in (folders[0], folders[0] / "evidence.zip")
    )
    assert by_folder.stdout.startswith("Of 3 points")
    assert by_folder.stdout == by_pack.stdout
    shown = CliRunner().invoke(app, ["compare", *map(str, folders), "--json"]).stdout
    assert URL.name in shown
    assert "evidence.zip" not in shown


def test_a_file_that_is_no_pack_and_a_pack_without_runs_are_refused_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "none.zip").write_text("no zip file", encoding="utf-8")
    with zipfile.ZipFile(tmp_path / "bare.zip", "w") as archive:
        archive.writestr("evidence.json", "{}")
    for name, words in (("none.zip", "is no zip file that can be read"), ("bare.zip", "holds no run")):
        told = CliRunner().invoke(app, ["show", str(tmp_path / name)])
        assert (told.exit_code, told.stdout) == (2, "")
        assert words in told.stderr
        assert "TL240" in told.stderr
