"""What cannot be used: one sentence on stderr that names the place, exit code 2, no traceback, and nothing measured."""

from __future__ import annotations

import errno
import json
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
from click.testing import CliRunner, Result

from material import fixed, inference, study_of, training, twinlens
from twinlens.cli.main import app
from twinlens.errors import BadInput
from twinlens.pages import find
from twinlens.spec.load import dump, load, parse


def call(*words: str | Path) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words])


def sentence(done: Result) -> str:
    """The one line that a refused command says; anything else fails the test."""
    assert done.exit_code == 2, (done.exit_code, done.output, done.exception)
    assert isinstance(done.exception, SystemExit)
    assert done.stdout == ""
    lines = done.stderr.strip().splitlines()
    assert len(lines) == 1, done.stderr
    assert lines[0].startswith("twinlens: ")
    assert "Traceback" not in lines[0]
    code = lines[0].rpartition("(twinlens explain ")[2].rstrip(")")
    assert find(code).text, "the error has a page"
    return lines[0]


SETTINGS: dict[str, tuple[list[str], str]] = {
    "unknown model": (["workload.model=tinny"], "did you mean 'tiny'?"),
    "unknown field": (["workload.gobal_batch=3"], "did you mean 'global_batch'?"),
    "unknown field of the point": (["point.precison=bf16"], "did you mean 'precision'?"),
    "unknown table": (["worklod.model=tiny"], "did you mean 'workload'?"),
    "unknown field of data": (['workload.data={kind="markov", branchs=3}'], "did you mean 'branches'?"),
    "unknown kind of data": (['workload.data={kind="markow"}'], "markow"),
    "unknown kind of workload": (["workload.kind=trainig"], "trainig"),
    "unknown precision": (["point.precision=pf16"], "unknown precision 'pf16'"),
    "a precision of the other lens": (["point.precision=int8-weight"], "does not exist for training"),
    "unknown executor": (["executor.kind=trch"], "did you mean 'torch'?"),
    "a word for a number": (["workload.global_batch=many"], "workload.global_batch"),
    "a unit that is not asked for": (['protocol.duration_s="5 s"'], "protocol.duration_s"),
    "a fraction of a row": (["protocol.min_rows=2.5"], "protocol.min_rows"),
    "nothing of something": (["workload.global_batch=0"], "greater than 0"),
    "a negative time": (["protocol.duration_s=-1"], "greater than 0"),
    "time without end": (["protocol.duration_s=inf"], "protocol.duration_s"),
    "no number at all": (["workload.learning_rate=nan"], "workload.learning_rate"),
    "no path": (["=3"], "--set wants path=value"),
    "no value": (["point.batch"], "--set wants path=value"),
    "through a value": (["name.first=x"], "holds a value, not a table"),
    "a name for no folder": (["name=../up"], "name"),
    "another schema": (["schema=2"], "schema 2 is not"),
    "a date": (["workload.model=2026-11-20"], "no model '2026-11-20'"),
    "a date for a number": (["workload.global_batch=2026-11-20"], "workload.global_batch"),
    "an infinite option": (["executor.options={x=inf}"], "field 'executor.options.x' is inf"),
    "an empty sweep": (["sweep.precision=[]"], "sweep.precision"),
    "a sweep of one value": (["sweep.precision=bf16"], "sweep.precision"),
    "a sweep that is no table": (["sweep=3"], "sweep"),
    "a sweep that is no table, and a setting": (["sweep=3", "point.batch=2"], "sweep"),
    "a sweep over no field": (["sweep.colour=[1]"], "colour"),
    "a sweep over bad values": (['sweep.precision=["fp32", "pf16"]'], "pf16"),
    "a rate of steps": (["point.rate_per_s=3"], "point.rate_per_s is for inference"),
    "steps in flight": (["point.concurrency=3"], "point.concurrency is for inference"),
    "a microbatch that does not divide": (["point.microbatch=3"], "does not divide"),
    "images for a language model": (['workload.data={kind="images"}'], "do not fit"),
    "words for a vision model": (["workload.model=vit-tiny"], "do not fit"),
    "a device that is not here": (["executor.device=cuda:99"], "CUDA devices"),
    "a device that is none": (["executor.device=tpu"], "not one of auto, cpu, cuda"),
    "a model that cannot fit": (["workload.model=llama-3.1-70b"], "it does not fit"),
    "fp8 on a processor": (["point.precision=fp8"], "needs an NVIDIA GPU"),
    "tf32 on a processor": (["point.precision=tf32"], "needs an NVIDIA GPU"),
    "sequences longer than the context": (["workload.seq_len=4096"], "context ends at 512"),
    "an option nobody has": (["executor.options={speed=3}"], "no option 'speed'"),
}


@pytest.mark.torch
@pytest.mark.parametrize("what", SETTINGS)
def test_a_bad_setting_is_one_sentence(tmp_path: Path, what: str) -> None:
    pytest.importorskip("torch", reason="needs the torch extra")
    settings, says = SETTINGS[what]
    file = tmp_path / "spec.toml"
    file.write_text(dump(study_of(training("torch"))))
    words = [word for setting in settings for word in ("--set", setting)]
    assert says in sentence(call("measure", file, "--out", tmp_path / "out", "-q", *words))
    assert not list(tmp_path.glob("out/**/*.arrows")), "no row was taken"


INFERENCE: dict[str, tuple[list[str], str]] = {
    "a context that is too long": (["workload.input_tokens.value=510"], "come to 516, the model's context ends at 512"),
    "an unknown length": (['workload.input_tokens={kind="normal"}'], "normal"),
    "a length without a mean": (['workload.input_tokens={kind="lognormal", cv=1.0, max=9}'], "mean' is missing"),
    "uniform the wrong way round": (['workload.input_tokens={kind="uniform", min=9, max=2}'], "min"),
    "words for a vision model": (["workload.model=vit-tiny"], "do not fit"),
    "training's field": (["workload.global_batch=3"], "unknown field"),
    "int8 products of a model without any": (
        ["workload.model=resnet-tiny", 'workload.data={kind="images"}', "point.precision=fp8"], "needs an NVIDIA GPU",
    ),
    "fp8 on a processor": (["point.precision=fp8"], "needs an NVIDIA GPU"),
}  # fmt: skip


@pytest.mark.torch
@pytest.mark.parametrize("what", INFERENCE)
def test_a_bad_setting_of_the_other_lens_is_one_sentence(tmp_path: Path, what: str) -> None:
    pytest.importorskip("torch", reason="needs the torch extra")
    settings, says = INFERENCE[what]
    file = tmp_path / "spec.toml"
    file.write_text(dump(study_of(inference("torch"))))
    words = [word for setting in settings for word in ("--set", setting)]
    assert says in sentence(call("measure", file, "--out", tmp_path / "out", "-q", *words))


@pytest.mark.parametrize("at", ["batch", "=1,2", "batch=", "batch= , ", "batch=1,,2", "batch=0", "colour=red"])
def test_a_bad_sweep_is_one_sentence(tmp_path: Path, at: str) -> None:
    file = tmp_path / "spec.toml"
    file.write_text(dump(study_of(inference("fake"))))
    assert sentence(call("check", file, "--at", at))


FILES = {
    "not TOML": ("name = ", "is not TOML"),
    "an empty file": ("", "'workload' is missing"),
    "no text": (b"\xff\xfe", "cannot read the spec file"),
    "JSON": ('{"name": 3}', "is not TOML"),
    "a list for a table": ("workload = [1]", "workload"),
    "a workload without a kind": ('[workload]\nmodel = "tiny"', "kind"),
    "a workload without a model": ('[workload]\nkind = "training"\nglobal_batch = 2', "'workload.model' is missing"),
}


@pytest.mark.parametrize("what", FILES)
def test_a_bad_file_is_one_sentence(tmp_path: Path, what: str) -> None:
    content, says = FILES[what]
    file = tmp_path / "spec.toml"
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    assert says in sentence(call("check", file))


def test_a_file_that_is_not_there_is_one_sentence(tmp_path: Path) -> None:
    assert "there is no spec file" in sentence(call("check", tmp_path / "none.toml"))
    assert "cannot read the spec file" in sentence(call("check", tmp_path))
    for verb in ("show", "report"):
        assert "no run folder" in sentence(call(verb, tmp_path / "none"))
        assert "holds no run" in sentence(call(verb, tmp_path))


def test_markup_in_a_name_is_shown_and_not_obeyed(tmp_path: Path) -> None:
    file = tmp_path / "spec.toml"
    file.write_text(dump(study_of(training("fake"))))
    assert "[bold]x[/bold]" in sentence(call("check", file, "--set", 'workload.model="[bold]x[/bold]"'))


def test_a_process_of_its_own_says_the_same(tmp_path: Path) -> None:
    file = tmp_path / "spec.toml"
    file.write_text(dump(study_of(training("fake"))))
    done = twinlens("check", file, "--set", "workload.model=tinny")
    assert done.returncode == 2
    assert done.stdout == ""
    assert len(done.stderr.strip().splitlines()) == 1


def test_options_that_are_none_are_a_usage_error() -> None:
    done = call("check", "--colour", "red")
    assert done.exit_code == 2
    assert "check has no option --colour; known: " in done.stderr


@pytest.mark.parametrize(
    ("make", "model", "sum_of"),
    [
        (training, "llama-3.1-70b", "70.55 G parameters × 16 B"),
        (inference, "llama-3.1-405b", "405.9 G parameters × 4 B"),
        (inference, "deepseek-v3", "tokens of KV cache"),
    ],
)
def test_what_cannot_fit_is_refused_with_the_sum_before_anything_is_allocated(
    tmp_path: Path, make: Any, model: str, sum_of: str
) -> None:
    file = tmp_path / "spec.toml"
    file.write_text(dump(study_of(make("torch", model))))
    call("check", file)  # imports
    before, begin_s = psutil.Process().memory_info().rss, time.monotonic()
    said = sentence(call("measure", file, "--out", tmp_path / "out", "-q"))
    assert time.monotonic() - begin_s < 30.0
    assert psutil.Process().memory_info().rss - before < 50 * 2**20
    for part in ("it does not fit", sum_of, "for the runtime =", "has free", "take a smaller"):
        assert part in said
    assert not (tmp_path / "out").exists()


def test_check_shows_the_spec_of_what_cannot_fit_and_then_refuses_it(tmp_path: Path) -> None:
    file = tmp_path / "spec.toml"
    file.write_text(dump(study_of(training("torch", "llama-3.1-70b"))))
    done = call("check", file, "--json")
    assert done.exit_code == 2
    assert json.loads(done.stdout)["points"][0]["memory_bytes"] > 1e12


@pytest.mark.parametrize("field", ["global_batch", "seq_len", "learning_rate"])
@pytest.mark.parametrize("wrong", [True, "3", None, [], {}, -1, float("inf")])
def test_no_wrong_type_is_taken_for_a_number(field: str, wrong: Any) -> None:
    data = training("fake")
    data["workload"][field] = wrong
    with pytest.raises(BadInput, match=rf"workload\.{field}") as caught:
        parse(data)
    assert "\n" not in str(caught.value)


def test_the_longest_input_that_still_fits_is_taken(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="needs the torch extra")
    from material import measured

    run = measured(tmp_path, inference("torch", input_tokens=fixed(506), protocol={"min_rows": 1, "duration_s": 0.01}))
    assert run.state == "finished"


def test_a_letter_that_the_locale_does_not_know_is_a_word_like_any_other(tmp_path: Path) -> None:
    plain = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    for words in (("nöpe",), ("check", "laws", "--at", "nöpe=1,2"), ("measure", "laws", "--set", "point.nöpe=1")):
        done = twinlens(*words, **plain)
        assert done.returncode == 2
        assert "n?pe" in done.stderr or "nöpe" in done.stderr
        assert len(done.stderr.strip().splitlines()) <= 4
    done = twinlens("measure", "nöpe", **plain)
    assert done.returncode == 2
    assert done.stderr.startswith("twinlens: there is no spec file 'n?pe'"), "a letter, not the escapes of its bytes"


@pytest.mark.parametrize(
    ("written", "meant"),
    [("workload.microbatch", "point.microbatch"), ("workload.micro_batch", "point.microbatch"),
     ("point.duration", "protocol.duration_s"), ("point.lr", "workload.learning_rate"), ("workload.modle", "model")],
)  # fmt: skip
def test_a_field_of_another_table_is_named_with_that_table(written: str, meant: str) -> None:
    with pytest.raises(BadInput, match=rf"unknown field '{written}'; did you mean '{meant}'\?"):
        load("pretrain", [f"{written}=3"])


DIGITS, BRACKETS = "9" * 5_000, "[" * 60_000
BEYOND: dict[str, tuple[list[str], str]] = {
    "digits of a setting": (["check", "pretrain", "--set", f"workload.global_batch={DIGITS}"], "more than 100 digits"),
    "brackets of a setting": (["check", "pretrain", "--set", f"workload.global_batch={BRACKETS}"], "nested deeper"),
    "digits of a sweep": (["check", "pretrain", "--at", f"batch={DIGITS}"], "more than 100 digits"),
    "digits of a count": (["plan", "checkpoint", "--devices", DIGITS], "is a count from 1 to"),
    "a name that is no path": (["list", "models", DIGITS], "longer than a path"),
    "a run that is no path": (["show", DIGITS], "longer than a path"),
}


@pytest.mark.parametrize("what", BEYOND)
def test_numbers_and_lists_without_end_are_one_short_sentence(what: str) -> None:
    words, said = BEYOND[what]
    told = sentence(call(*words))
    assert said in told
    assert len(told) < 400


@pytest.mark.parametrize("content", [f"value = {DIGITS}", f"value = {BRACKETS}", "a." * 500 + "a = 1"])
def test_a_spec_file_beyond_the_bounds_is_one_sentence(tmp_path: Path, content: str) -> None:
    (tmp_path / "x.toml").write_text(content)
    assert "cannot read the spec file" in sentence(call("check", tmp_path / "x.toml"))


def test_a_config_whose_sizes_are_zero_says_so(tmp_path: Path) -> None:
    sizes = {"hidden_size": 64, "num_attention_heads": 0, "num_hidden_layers": 2, "vocab_size": 99}
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "llama", "intermediate_size": 128} | sizes))
    told = sentence(call("check", "pretrain", "--set", f"workload.model={tmp_path}"))
    assert "a size that divides another is 0" in told
    assert "modulo" not in told


def test_a_report_that_the_disk_refuses_leaves_the_one_that_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from twinlens.reporting.document.environment import write_page

    page = write_page("the first", tmp_path / "report.html")
    write = Path.write_text

    def full(path: Path, text: str, **how: Any) -> int:
        write(path, text[: len(text) // 2], **how)
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(BadInput, match="No space left"):
        write_page("the second", page)
    assert page.read_text() == "the first"
    assert [each.name for each in tmp_path.iterdir()] == ["report.html"]
