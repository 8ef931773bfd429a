"""Logs of Megatron-LM, torchtitan and NeMo as rows. The samples are lines of real logs (their makers' repositories and
public issues, 2024 to 2026), with step times changed so that every figure below can be worked out by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import twinlens as tl
from material import measured, quiet, spec_of, training
from twinlens.errors import BadInput
from twinlens.executors.registry import trainer
from twinlens.executors.trainer_log.formats import (
    phases,
    plain,
    read_automodel,
    read_megatron,
    read_nemo,
    read_spans,
    read_torchtitan,
    real,
    seconds,
    whole,
)
from twinlens.executors.trainer_log.rows import ReadLog, StepRecord, collected, rows_of
from twinlens.measurement.summary_file import summary_of
from twinlens.record.step import Marks
from twinlens.reporting.wording.finding import sentence_of
from twinlens.spec.study import RunSpec

SAMPLES = Path(__file__).parent / "trainer_log_samples"
READERS = {
    "megatron": read_megatron,
    "torchtitan": read_torchtitan,
    "torchtitan-spans": read_spans,
    "nemo": read_nemo,
    "nemo-automodel": read_automodel,
}


def lines(name: str) -> list[str]:
    return (SAMPLES / name).read_text(encoding="utf-8").splitlines(keepends=True)


def asked(log: Path, form: str, batch: int, length: int, **options: Any) -> dict[str, Any]:
    known = {"log": str(log), "format": form, "tokens_per_step": batch * length}
    return training("trainer-log", options=known | options, global_batch=batch, seq_len=length)


def played(log: Path, form: str, batch: int, length: int) -> tuple[list[Marks], list[str], list[str]]:
    """Rows, codes of findings, and their sentences."""
    opened = trainer("trainer-log")
    facts = opened.open(spec_of(asked(log, form, batch, length)), quiet)
    rows = []
    while True:
        try:
            rows.append(opened.step())
        except StopIteration:
            break
    opened.close()
    return rows, [each.code for each in facts.findings], [sentence_of(each) for each in facts.findings]


def test_megatrons_lines_are_rows_with_the_phases_that_its_timers_say() -> None:
    rows, codes, (said,) = played(SAMPLES / "megatron.log", "megatron", 32, 128)
    assert codes == ["read-from-log"]
    assert [row.end_ns - row.begin_ns for row in rows] == [271_607_000_000, 1_510_400_000, 1_512_600_000, 1_509_000_000]
    assert [row.begin_ns for row in rows[1:]] == [row.end_ns for row in rows[:-1]]
    assert [(row.samples, row.tokens) for row in rows] == [(32, 4096)] * 4
    assert [row.loss for row in rows] == [11.92634, 0.04858129, None, 0.047]
    assert [row.tag for row in rows] == ["starting", None, "skipped", None]
    assert (rows[0].optimize_ns, rows[0].communicate_ns) == (None, None), "the start's timers are divided wrongly"
    assert rows[1].optimize_ns == 120_000_000, "160 ms less the 40 ms of gathering inside it"
    assert rows[1].communicate_ns == 70_000_000, "30 ms of gradients and 40 ms of weights"
    assert (rows[1].forward_ns, rows[1].backward_ns, rows[1].data_ns) == (None, None, None)
    assert "4 lines that say a step's time, steps 1 to 4, to 100 µs (skipped steps: 1)" in said
    assert "Of phases it says communicate, optimize." in said


def test_a_line_for_several_steps_is_one_row_and_such_a_run_is_not_ranked() -> None:
    rows, codes, (mean, read) = played(SAMPLES / "megatron_interval.log", "megatron", 1024, 2)
    assert codes == ["log-interval-mean", "read-from-log"]
    assert [row.end_ns - row.begin_ns for row in rows[1:]] == [13_035_300_000, 13_000_000_000]
    assert [row.samples for row in rows] == [1024, 1024, 1024]
    assert [row.tag for row in rows] == ["starting", None, None]
    assert "skipped steps: 10" in read
    assert "up to 10 steps" in mean
    assert "on the same step: 1" in read


def test_torchtitans_console_has_the_time_between_two_lines() -> None:
    rows, codes, (_, read) = played(SAMPLES / "torchtitan.log", "torchtitan", 8, 2048)
    assert codes == ["log-interval-mean", "read-from-log"]
    assert [row.end_ns - row.begin_ns for row in rows] == [4_400_000_000, 4_040_000_000]
    assert [(row.loss, row.samples, row.tokens) for row in rows] == [(9.9, 8, 16384), (9.3015, 8, 16384)]
    assert "lies in the rows" in read


def test_torchtitans_spans_give_the_step_and_no_phases_of_the_host() -> None:
    rows, codes, _ = played(SAMPLES / "torchtitan_spans.jsonl", "torchtitan-spans", 8, 2048)
    assert codes == ["read-from-log"]
    assert [row.end_ns - row.begin_ns for row in rows] == [9_000_000_000, 12_750_000, 12_500_000]
    assert {(row.data_ns, row.optimize_ns, row.loss) for row in rows} == {(None, None, None)}


def test_nemos_lines_say_how_coarse_their_times_are() -> None:
    rows, codes, (said,) = played(SAMPLES / "nemo.log", "nemo", 128, 4096)
    assert codes == ["read-from-log"]
    assert [row.end_ns - row.begin_ns for row in rows] == [61_200_000_000, 6_080_000_000, 6_100_000_000]
    assert [row.loss for row in rows] == [11.98, 11.96, 11.9]
    assert "to 10 ms" in said
    assert "steps 45 to 47" in said


def test_forward_and_backward_are_known_without_a_pipeline_alone() -> None:
    timers = {"forward-compute": 0.5, "backward-compute": 0.9, "batch-generator": 0.1}
    assert phases(timers) == {"data": 0.1, "forward": 0.4, "backward": 0.9}
    assert phases(timers | {"forward-recv": 0.1}) == {"data": 0.1}


def test_timers_of_every_rank_give_the_slowest() -> None:
    text = [
        " iteration 1/ 9 | elapsed time per iteration (ms): 100.0 |\n",
        "INFO:megatron.core.timers:times across ranks (ms):\n",
        "    optimizer:\n",
        "     rank  0: 12.34\n",
        "     rank  1: 15.00\n",
    ]
    assert collected(read_megatron(text)).records[0].phases_s == {"optimize": 0.015}


def test_forks_and_earlier_versions_are_read_too() -> None:
    (deepspeed,) = read_megatron([" iteration 5/ 9 | consumed tokens: 4096 | elapsed_time_per_iteration_ms=29570.0 |"])
    assert isinstance(deepspeed, StepRecord)
    assert (deepspeed.step_s, deepspeed.consumed_tokens) == (pytest.approx(29.57), 4096)
    (bloom,) = read_megatron(
        [" iteration 5/ 9 | elapsed time per iteration (s): 29.57 | mtp_1 loss: 2.0 | lm loss: nan |"]
    )
    assert isinstance(bloom, StepRecord)
    assert bloom.step_s == 29.57
    assert bloom.losses["mtp_1 loss"] == 2.0
    assert bloom.losses["lm loss"] != bloom.losses["lm loss"], "training that diverged is told"


def test_a_job_that_began_again_repeats_its_steps() -> None:
    records = tuple(StepRecord(number, 1.0) for number in (1, 2, 3, 2, 3, 4))
    rows = rows_of(ReadLog(records), 8, 16)
    assert [row.tag for row in rows.marks] == ["starting", None, None, "starting", "repeat", None]
    assert (rows.starts, rows.first, rows.last, rows.others) == (2, 1, 4, 0)


def test_phases_that_are_longer_than_their_step_are_not_known() -> None:
    records = (StepRecord(1, 1.0), StepRecord(2, 1.0, phases_s={"optimize": 0.6, "communicate": 0.6}))
    assert rows_of(ReadLog(records), 8, 16).marks[1].optimize_ns is None


def test_numbers_are_finite_and_whole_or_not_read() -> None:
    assert [real(text) for text in ("1e999", "nan", "", None, "13100.0/13240.9")] == [None, None, None, None, 13100.0]
    assert [whole(text) for text in ("9" * 5000, "-1", "1.5", "1,024")] == [None, None, None, 1024]
    assert seconds("6.08", 1.0) == (6.08, pytest.approx(0.01))
    assert [seconds(text, 1.0)[0] for text in ("0", "-1", "1e9", "x", None)] == [None] * 5
    assert plain("\x1b[31m[rank3]:step\x1b[0m\r\n") == ("rank3", "step")


@pytest.mark.parametrize(
    ("text", "form", "words"),
    [
        ("", "megatron", "holds no line on a step by megatron"),
        (" iteration 1/ 9 | elapsed time per iter\n", "megatron", "cannot be read as megatron: all 1"),
        (" iteration 1/ 9 | elapsed time per iteration (ms): 1e999 |\n", "megatron", "cannot be read as"),
        (" iteration 1/ 9 | elapsed time per iteration (ms): 15", "megatron", "holds no line on a step"),
        ("\x00\x1b[2J" * 999 + "\n", "nemo", "holds no line on a step by nemo"),
        ('{"log_type_name": "step_end", "step": 1e400, "value": true}\n', "torchtitan-spans", "cannot be read as"),
        ("".join(lines("nemo.log")), "megatron", 'lines of nemo: --set executor.options.format="nemo"'),
        ("titan 2025-12-13 07:10:23,426 step: 1 loss: 2.0\n", "torchtitan", "no two of its lines say"),
    ],
    ids=["empty", "truncated", "endless", "unfinished", "escapes", "types", "other-format", "one-line"],
)  # fmt: skip
def test_a_log_that_gives_no_row_is_refused_in_one_sentence(tmp_path: Path, text: str, form: str, words: str) -> None:
    log = tmp_path / "x.log"
    log.write_text(text, encoding="utf-8")
    with pytest.raises(BadInput) as refused:
        played(log, form, 8, 16)
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_file_that_is_none_and_a_size_that_differs_are_refused(tmp_path: Path) -> None:
    log = SAMPLES / "megatron.log"
    for data, words in (
        (asked(tmp_path / "none", "megatron", 8, 16), "cannot be read"),
        (asked(tmp_path, "megatron", 8, 16), "is no file"),
        (asked(log, "megatron", 8, 16), "global batch of 32, and workload.global_batch is 8"),
        (asked(log, "megatron", 32, 16, tokens_per_step=9), "tokens_per_step is 9, and .* = 512"),
        (asked(log, "megatron", 32, 16, tokens_per_step=0), "tokens_per_step is missing"),
        (asked(log, "megatron", 32, 16) | {"protocol": {"repeats": 3}}, "a log is one run"),
    ):
        with pytest.raises(BadInput, match=words):
            trainer("trainer-log").open(spec_of(data), quiet)


def test_a_cut_last_line_is_left_out_and_counted(tmp_path: Path) -> None:
    log = tmp_path / "cut.log"
    log.write_text("".join(lines("nemo.log"))[:-40], encoding="utf-8")
    rows, _, (said,) = played(log, "nemo", 128, 4096)
    assert len(rows) == 2
    assert "unreadable lines: 1" in said


@given(
    st.lists(
        st.text(max_size=60)
        | st.sampled_from([line for path in sorted(SAMPLES.iterdir()) for line in lines(path.name)])
        | st.tuples(st.sampled_from(lines("megatron.log")), st.integers(0, 400)).map(lambda cut: cut[0][: cut[1]])
        | st.builds(" iteration {}/ 9 | elapsed time per iteration (ms): {} | consumed samples: {} |".format,
                    st.integers(), st.floats(), st.integers())
        | st.builds(lambda *values: json.dumps({"log_type_name": "step_end", "step": values[0], "value": values[1]}),
                    st.integers() | st.none(), st.floats() | st.booleans()),
        max_size=12,
    )
)  # fmt: skip
def test_whatever_a_log_holds_its_rows_follow_each_other(text: list[str]) -> None:
    for read in READERS.values():
        log = collected(read(text))
        assert 0 <= log.unread <= len(text)
        if log.records:
            at_ns = 0
            for row in rows_of(log, 8, 16).marks:
                assert at_ns <= row.begin_ns < row.end_ns < 2**62
                assert row.samples > 0
                assert 0 <= row.tokens < 2**63
                at_ns = row.end_ns


def test_a_log_is_read_once_at_no_precision_where_the_spec_does_not_say() -> None:
    data = asked(SAMPLES / "megatron.log", "megatron", 32, 128)
    spec = spec_of({name: part for name, part in data.items() if name not in ("protocol", "point")})
    assert (spec.protocol.repeats, spec.point.precision) == (1, "as-found")


def test_a_spec_of_a_log_holds_what_somebody_said_and_no_default_beside_it() -> None:
    data = asked(SAMPLES / "megatron.log", "megatron", 32, 128)
    unsaid = spec_of({name: part for name, part in data.items() if name != "protocol"})
    said = spec_of(data | {"workload": data["workload"] | {"learning_rate": 3e-4}, "protocol": {"seed": 7}})
    for spec in (unsaid, said):
        assert RunSpec.model_validate_json(json.dumps(spec.to_dict())).to_dict() == spec.to_dict()
    assert "learning_rate" not in unsaid.to_dict()["workload"]
    assert not {"seed", "duration_s"} & unsaid.to_dict()["protocol"].keys()
    assert said.to_dict()["workload"]["learning_rate"] == 3e-4
    assert said.to_dict()["protocol"]["seed"] == 7
    assert "duration_s" not in said.to_dict()["protocol"]


def test_a_log_is_measured_into_a_run_like_any_other(tmp_path: Path) -> None:
    log = tmp_path / "long.log"
    line = (
        " [2026-09-08 20:31:37.112485] iteration {n:8d}/ 99 | consumed samples: {c:12d} | elapsed time per iteration "
        "(ms): {ms:.1f} | global batch size:    32 | lm loss: 2.5E+00 | number of skipped iterations:   0 |\n"
    )
    times = [90_000.0] + [1500.0 + (7 * n) % 5 for n in range(60)]
    log.write_text("".join(line.format(n=n, c=32 * n, ms=ms) for n, ms in enumerate(times, start=1)), encoding="utf-8")
    run = measured(tmp_path, asked(log, "megatron", 32, 128))
    assert run.state == "finished"
    assert run.table.num_rows == 61
    assert run.spec.point.precision == "as-found", "no format is claimed that nobody saw"
    summary = summary_of(run)
    rate = summary.metrics["training_tokens_per_s"].value
    assert rate == pytest.approx(4096 / 1.502, rel=1e-3), "the start is not in it"
    assert run.facts is not None
    assert run.facts.executor.facts["accelerator.uuid"].value is None, "on a GPU, and nobody knows on which"
    assert (run.spec.workload.optimizer, run.spec.workload.data.kind) == ("own", "own"), "the log says neither"
    told = tl.show(run)
    assert "optimizer unknown" in told
    assert [word for word in ("adamw", "markov", "seed 0", "60 s") if word in told] == [], "defaults of the spec"
    page = tl.report([run], to=tmp_path / "report.html").read_text(encoding="utf-8")
    assert [word for word in ("adamw", "markov", "Seeds:", "Rows were taken for") if word in page] == []
    assert run.facts.work == {}, "their TFLOP/s is not taken as ours"


def test_nemo_automodels_lines_have_the_time_between_two_and_a_validation_is_no_step() -> None:
    rows, codes, (said,) = played(SAMPLES / "nemo_automodel.log", "nemo-automodel", 8, 2048)
    assert codes == ["read-from-log"]
    assert [row.end_ns - row.begin_ns for row in rows] == [10_000_000_000, 12_000_000_000]
    assert [row.loss for row in rows] == [2.25, 2.0]
    assert "to 1.0 s" in said
    assert "Of one GPU it says 14.0 GiB allocated at most" in said


def test_memory_and_energy_of_a_gpu_are_said_where_the_log_says_them(tmp_path: Path) -> None:
    *_, (_, titan) = played(SAMPLES / "torchtitan.log", "torchtitan", 8, 2048)
    assert "Of one GPU it says 135 GiB reserved at most; of how many GPUs, it does not say." in titan
    *_, (nemo_said,) = played(SAMPLES / "nemo.log", "nemo", 128, 4096)
    assert "119 GiB reserved at most" in nemo_said, "127,785,762,816 bytes"
    line = (
        " [2026-02-06 20:55:0{0}] iteration {0}/ 9 | consumed samples: {1} | elapsed time per iteration (ms): 2000.0 | "
        "energy per GPU (J/iter/GPU): {2} | power per GPU (W/GPU): {3} | global batch size: 32 | lm loss: 2.0 |\n"
    )
    ranks = (
        "[Rank {0}] (after 2 iterations) memory (MB) | allocated: 1.0 | max allocated: {1} | reserved: 3.0 | "
        "max reserved: {2}\n"
    )
    log = tmp_path / "megatron.log"
    log.write_text(
        line.format(1, 32, 9000.0, 4500.0) + line.format(2, 64, 1200.0, 600.0)
        + ranks.format(0, 1024.0, 4096.0) + ranks.format(1, 2048.0, 3072.0) + line.format(3, 96, 1400.0, 700.0)
    )  # fmt: skip
    rows, _, (said,) = played(log, "megatron", 32, 128)
    assert len(rows) == 3
    assert "2.00 GiB allocated at most, 4.00 GiB reserved at most, 1.30 kJ a step, 650 W mean power" in said
    assert "Of one GPU" not in played(SAMPLES / "megatron.log", "megatron", 32, 128)[2][0]


def test_a_time_with_a_comma_in_its_exponent_is_read_as_its_number_is() -> None:
    assert seconds("1e0,5", 1.0) == (None, 0.0)
    assert seconds("1e0,2", 1.0) == (100.0, 100.0)


def test_a_figure_of_one_gpu_is_no_metric_and_the_reason_says_that_the_log_has_it(tmp_path: Path) -> None:
    run = measured(tmp_path, asked(SAMPLES / "nemo.log", "nemo", 128, 4096) | {"protocol": {"repeats": 1}})
    metrics = summary_of(run).metrics
    assert metrics["peak_bytes"].value is None
    assert "the log says it of one GPU" in metrics["peak_bytes"].reason
