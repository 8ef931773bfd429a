"""A log as a trainer: each line that says a step's time is the next row, whether the log is whole or still written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from twinlens.errors import BadInput
from twinlens.executors.protocol import Say
from twinlens.executors.trainer_log.entry import FORMATS, log_of
from twinlens.executors.trainer_log.formats import read_automodel, read_megatron, read_nemo, read_spans, read_torchtitan
from twinlens.executors.trainer_log.live import Command, Live, command_of, facts_of, followed, in_words, printed_by
from twinlens.executors.trainer_log.rows import Reader, Reading, ReadLog, Rows, StepRecord, collected, rows_of
from twinlens.record.executor.facts import Facts
from twinlens.record.executor.record import ExecutorRecord, Fact, declared, unknown
from twinlens.record.finding import Finding
from twinlens.record.step import Marks
from twinlens.spec.study import RunSpec
from twinlens.spec.workload.workload import Images, TrainingWorkload

_READERS: dict[str, Reader] = dict(
    zip(FORMATS, (read_megatron, read_torchtitan, read_spans, read_nemo, read_automodel), strict=True)
)
_NAMES = dict(zip(FORMATS, ("Megatron-LM", "torchtitan", "torchtitan", "NeMo", "NeMo Automodel"), strict=True))
_LONGEST_S = 1e9
_LOOKS = (20, 200, 1000)
"""After so many lines of a log that is still written, without one on a step, other formats are tried."""
_SURE = 3


class LogTrainer:
    """The lines of a log, one after another: of one that is whole, of one that is still written, or of what a command
    of the user's prints, which this run starts."""

    def __init__(self) -> None:
        self._rows: Iterator[Marks] = iter(())
        self._live: Live | None = None
        self._command: Command | None = None
        self._output: Path | None = None
        self._kind = FORMATS[0]

    @property
    def first_pids(self) -> tuple[int, ...]:
        return self._command.pids if self._command is not None else ()

    def log_to(self, path: Path) -> None:
        self._output = path

    def open(self, spec: RunSpec, say: Say) -> Facts:
        """Raises BadInput (TL207) for a log that holds no row, and (TL202) for a size of step that it contradicts;
        ExecutorFailed (TL302, TL303) for a command that fails."""
        options, workload = spec.executor.options, spec.workload
        assert isinstance(workload, TrainingWorkload)
        self._kind = kind = options.get("format", FORMATS[0])
        command = command_of(options)
        if spec.protocol.repeats != 1 and not command:
            raise BadInput("a log is one run, and reading it again adds none: protocol.repeats = 1", code="TL202")
        if command or options.get("follow_s"):
            return self._open_live(spec, workload, say)
        path = log_of(options)
        say(f"reading {path.name}")
        log, cut = _read(path, _READERS[kind])
        if not log.records:
            raise BadInput(_nothing(path, kind, log), code="TL207")
        _refuse_wrong_size(options, workload, log.records)
        rows = rows_of(log, workload.global_batch, _tokens_each(workload))
        _refuse_unusable(rows, path)
        said = [record.samples for record in log.records if record.samples is not None]
        _refuse_other_batch(said[-1:], path, workload)
        self._rows = iter(rows.marks)
        return Facts(ExecutorRecord(_facts(_NAMES[kind], workload)), findings=_findings(rows, kind, log.unread + cut))

    def step(self) -> Marks:
        return next(self._rows)

    def findings(self) -> tuple[Finding, ...] | None:
        live = self._live
        return None if live is None else _findings(live.rows(), self._kind, live.unread, live.told())

    def close(self) -> None:
        if self._command is not None:
            self._command.close()

    def _open_live(self, spec: RunSpec, workload: TrainingWorkload, say: Say) -> Facts:
        """Read on until the first line on a step: it tells that this is such a log, and its trainer is then at work."""
        options, read = spec.executor.options, _READERS[self._kind]
        reading = Reading(workload.global_batch, _tokens_each(workload))
        path = self._begin(options, lambda lines: read(_of_no_other(lines, self._kind)), reading, say)
        assert self._live is not None
        first, command = self._live.first(), self._command
        if first is None:
            if command is not None:
                command.refuse_failure()
            raise BadInput(_nothing(path, self._kind, _read(path, read)[0]), code="TL207")
        _refuse_wrong_size(options, workload, (first,))
        _refuse_other_batch([first.samples] if first.samples is not None else [], path, workload)
        self._rows = self._live.marks()
        facts = _facts(_NAMES[self._kind], workload)
        if command is not None:
            facts = {name: fact for name, fact in facts.items() if not name.startswith("accelerator.")}
            facts |= facts_of(command.pids)
        return Facts(ExecutorRecord(facts), findings=self.findings() or ())

    def _begin(self, options: Mapping[str, Any], read: Reader, reading: Reading, say: Say) -> Path:
        """The file that is read, once its trainer has been started, or seems to be at work."""
        if not (words := command_of(options)):
            path = log_of(options)
            say(f"following {path.name}")
            self._live = followed(path, float(options["follow_s"]), read, reading)
            return path
        assert self._output is not None, "a run says where the output of its command goes"
        path = Path(str(options["log"])).expanduser() if options.get("log") else self._output
        begin = path.stat().st_size if path.is_file() else 0  # what stands there already is of another training
        say(f"running {in_words(words)}")
        self._command = command = Command(words, self._output)
        self._live = printed_by(command, path, begin, read, reading)
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
            return collected(reader(whole_lines(file))), cut
    except OSError as error:
        raise BadInput(f"executor.options.log: {path} cannot be read ({error.strerror})", code="TL207") from None


def _of_no_other(lines: Iterable[str], kind: str) -> Iterator[str]:
    """The same lines. Raises BadInput (TL207) soon where they are of another format: else a training of days would end
    before that is said."""
    kept: list[str] = []
    for line in lines:
        if len(kept) < max(_LOOKS):
            kept.append(line)
            if len(kept) in _LOOKS and not collected(_READERS[kind](kept)).records:
                for other, read in _READERS.items():
                    if len(collected(read(kept)).records) >= _SURE:
                        raise BadInput(
                            f"the log has no line of {kind}, but {_SURE} of {other}: {_set(other)}", code="TL207"
                        )
        yield line


def _set(kind: str) -> str:
    return f'--set executor.options.format="{kind}"'


def _nothing(path: Path, kind: str, log: ReadLog) -> str:
    fits = next((name for name, each in _READERS.items() if name != kind and _read(path, each)[0].records), None)
    if fits is not None:
        return f"{path} holds no line of {kind}, but lines of {fits}: {_set(fits)}"
    if log.unread:
        return f"{path}: lines on steps that cannot be read as {kind}: all {log.unread}; is it cut, or of a fork?"
    return f"{path} holds no line on a step by {kind}; executor.options.format is one of {', '.join(FORMATS)}"


def _tokens_each(workload: TrainingWorkload) -> int:
    return 0 if isinstance(workload.data, Images) else workload.seq_len


def _refuse_wrong_size(options: Any, workload: TrainingWorkload, records: Sequence[StepRecord]) -> None:
    stated = options.get("tokens_per_step", 0)
    if not stated and all(record.consumed_tokens is not None for record in records):
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


def _refuse_unusable(rows: Rows, path: Path) -> None:
    if not rows.marks:
        raise BadInput(f"{path}: no two of its lines say how long a step took; give a longer log", code="TL207")
    if rows.marks[-1].end_ns > _LONGEST_S * 1e9:
        raise BadInput(f"{path}: its steps add up to more than 30 years; are its times in milliseconds?", code="TL207")


def _refuse_other_batch(said: Sequence[int], path: Path, workload: TrainingWorkload) -> None:
    if said and said[0] != workload.global_batch:
        raise BadInput(
            f"{path} has a global batch of {said[0]:,}, and workload.global_batch is {workload.global_batch:,}; "
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


def _findings(
    rows: Rows, kind: str, unread: int, beside: Mapping[str, Any] = MappingProxyType({})
) -> tuple[Finding, ...]:
    """`beside`: what is known of a log that was read while it was written."""
    said = {
        "lines": rows.lines,
        "first": rows.first,
        "last": rows.last,
        "unread": unread,
        "others": rows.others,
        "starts": rows.starts,
        "skipped": rows.skipped,
        "nan": rows.nan,
        "resolution_s": rows.resolution_s,
        "of_gpu": dict(rows.of_gpu),
        "phases": [name.removesuffix("_ns") for name in rows.phases],
        "gaps": "inside" if kind in ("torchtitan", "nemo-automodel") else "outside",
        **beside,
    }
    read = Finding("read-from-log", "notes", _NAMES[kind], said)
    if rows.steps_each == 1:
        return (read,)
    return Finding("log-interval-mean", "disqualifies", _NAMES[kind], {"steps_each": rows.steps_each}), read
