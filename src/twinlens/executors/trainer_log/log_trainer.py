"""A log as a trainer: its file is read when it is opened, and each step is the next row."""

from __future__ import annotations

import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from twinlens.errors import BadInput
from twinlens.executors.options import refuse_outside
from twinlens.executors.protocol import Say
from twinlens.executors.trainer_log import megatron, nemo, nemo_automodel, torchtitan, torchtitan_spans
from twinlens.executors.trainer_log.options import FORMATS, OPTIONS
from twinlens.executors.trainer_log.rows import Rows, rows_of
from twinlens.executors.trainer_log.step_record import Reader, ReadLog
from twinlens.record.executor.facts import Facts
from twinlens.record.executor.record import ExecutorRecord, Fact, declared, unknown
from twinlens.record.finding import Finding
from twinlens.record.step import Marks
from twinlens.spec.study import RunSpec
from twinlens.spec.workload.workload import Images, TrainingWorkload

_READERS: dict[str, Reader] = dict(
    zip(
        FORMATS,
        (megatron.read, torchtitan.read, torchtitan_spans.read, nemo.read, nemo_automodel.read),
        strict=True,
    )
)
_NAMES = dict(zip(FORMATS, ("Megatron-LM", "torchtitan", "torchtitan", "NeMo", "NeMo Automodel"), strict=True))
_LONGEST_S = 1e9


class LogTrainer:
    """The lines of a log, one after another."""

    def open(self, spec: RunSpec, say: Say) -> Facts:
        """Raises BadInput (TL207) for a log that holds no row, and (TL202) for a size of step that it contradicts."""
        options, workload = spec.executor.options, spec.workload
        assert isinstance(workload, TrainingWorkload)
        kind = options.get("format", FORMATS[0])
        path = _file(options.get("log"))
        if spec.protocol.repeats != 1:
            raise BadInput("a log is one run, and reading it again adds none: protocol.repeats = 1", code="TL202")
        say(f"reading {path.name}")
        log, cut = _read(path, _READERS[kind])
        if not log.records:
            raise BadInput(_nothing(path, kind, log), code="TL207")
        _refuse_wrong_size(options, workload, log)
        tokens_each = 0 if isinstance(workload.data, Images) else workload.seq_len
        rows = rows_of(log, workload.global_batch, tokens_each)
        _refuse_unusable(rows, log, path, workload)
        self._marks = iter(rows.marks)
        return Facts(ExecutorRecord(_facts(_NAMES[kind], workload)), findings=_findings(rows, log, kind, cut))

    def step(self) -> Marks:
        return next(self._marks)

    def close(self) -> None:
        pass


def _file(asked: Any) -> Path:
    if not isinstance(asked, str) or not asked:
        raise BadInput('trainer-log needs the log: --set executor.options.log="train.log"', code="TL207")
    path = Path(asked).expanduser()
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise BadInput(f"executor.options.log: {asked} is no file; give the file that holds the log", code="TL207")
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise BadInput(f"executor.options.log: {asked} cannot be read ({why}); give its path", code="TL207") from None
    return path


def _read(path: Path, reader: Reader) -> tuple[ReadLog, bool]:
    """What the log says, and whether its last line has no end: that one is left out, it may be cut inside a number."""
    cut = False

    def whole_lines(lines: Iterable[str]) -> Iterator[str]:
        nonlocal cut
        for line in lines:
            if line.endswith("\n"):
                yield line
            else:
                cut = True

    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            return reader(whole_lines(file)), cut
    except OSError as error:
        raise BadInput(f"executor.options.log: {path} cannot be read ({error.strerror})", code="TL207") from None


def _nothing(path: Path, kind: str, log: ReadLog) -> str:
    fits = next((name for name, each in _READERS.items() if name != kind and _read(path, each)[0].records), None)
    if fits is not None:
        return f'{path} holds no line of {kind}, but lines of {fits}: --set executor.options.format="{fits}"'
    if log.unread:
        return f"{path}: lines on steps that cannot be read as {kind}: all {log.unread}; is it cut, or of a fork?"
    return f"{path} holds no line on a step by {kind}; executor.options.format is one of {', '.join(FORMATS)}"


def _refuse_wrong_size(options: Any, workload: TrainingWorkload, log: ReadLog) -> None:
    refuse_outside("trainer-log", options, OPTIONS, "tokens_per_step", 0, 2**53)
    stated = options.get("tokens_per_step", 0)
    if not stated and all(record.consumed_tokens is not None for record in log.records):
        return
    batch, length = workload.global_batch, workload.seq_len
    expected = 0 if isinstance(workload.data, Images) else batch * length
    if stated != expected:
        said = f"is {stated:,}" if stated else "is missing"
        raise BadInput(
            f"executor.options.tokens_per_step {said}, and workload.global_batch × workload.seq_len is {batch:,} × "
            f"{length:,} = {expected:,}: the log does not say it, so both must, alike",
            code="TL202",
        )


def _refuse_unusable(rows: Rows, log: ReadLog, path: Path, workload: TrainingWorkload) -> None:
    if not rows.marks:
        raise BadInput(f"{path}: no two of its lines say how long a step took; give a longer log", code="TL207")
    if rows.marks[-1].end_ns > _LONGEST_S * 1e9:
        raise BadInput(f"{path}: its steps add up to more than 30 years; are its times in milliseconds?", code="TL207")
    said = [record.samples for record in log.records if record.samples is not None]
    if said and said[-1] != workload.global_batch:
        raise BadInput(
            f"{path} ends with a global batch of {said[-1]:,}, and workload.global_batch is {workload.global_batch:,}; "
            "set it to the log's",
            code="TL202",
        )


def _facts(name: str, workload: TrainingWorkload) -> dict[str, Fact]:
    silent = unknown("the log does not say it")
    return {
        "software.framework.name": declared(name, "executor.options.format"),
        "software.framework.version": silent,
        "accelerator.product": silent,
        "accelerator.uuid": silent,  # there are some, for none of these trainers runs without
        "model.id": declared(workload.model, "the spec"),
        "point.batch": declared(workload.global_batch, "the spec"),
        "workload.input_tokens": declared(workload.seq_len, "the spec"),
        "workload.family": declared("training", "the spec"),
    }


def _findings(rows: Rows, log: ReadLog, kind: str, cut: bool) -> tuple[Finding, ...]:
    said = {
        "lines": len(rows.marks),
        "first": rows.first,
        "last": rows.last,
        "unread": log.unread + cut,
        "others": rows.others,
        "starts": rows.starts,
        "skipped": rows.skipped,
        "nan": rows.nan,
        "resolution_s": rows.resolution_s,
        "of_gpu": dict(rows.of_gpu),
        "phases": [name.removesuffix("_ns") for name in rows.phases],
        "gaps": "inside" if kind in ("torchtitan", "nemo-automodel") else "outside",
    }
    read = Finding("read-from-log", "notes", _NAMES[kind], said)
    if rows.steps_each == 1:
        return (read,)
    return Finding("log-interval-mean", "disqualifies", _NAMES[kind], {"steps_each": rows.steps_each}), read
