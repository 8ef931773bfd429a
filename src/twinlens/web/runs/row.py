"""One run as a list shows it: small facts of its run.json and of a summary that is believed, read as plain data.

A folder may be anybody's. Only regular files of a bounded size are read, links are not followed, and whatever is wrong
is one sentence in place of the facts. Nothing here validates a whole record: that is for who opens the run.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from twinlens.measurement.seal import is_sealed
from twinlens.record.codec import decode
from twinlens.record.estimate import Estimate
from twinlens.record.finding import Finding
from twinlens.reporting import display
from twinlens.reporting.display import clean
from twinlens.reporting.wording.finding import clause_of, label_words
from twinlens.reporting.wording.steadiness import could_hide
from twinlens.stats.metrics.definition import HEADLINE
from twinlens.system.document import read_json
from twinlens.system.processes import is_gone, is_of_this_host
from twinlens.version import RUN_SCHEMA

MOST_BYTES = 4 * 2**20
"""Of run.json and summary.json in a list; larger ones are read on the run's own page."""
UNJUDGED = "not judged yet"
_STATES = ("running", "finished", "interrupted", "failed")
Stamp = tuple[int, int, int, int]
"""Time of change in ns and size of run.json and of summary.json; zeros for one that is not there."""


@dataclass(frozen=True, slots=True)
class Row:
    """Facts of a run in words. `validity`: valid, provisional, not valid, running, unreadable or not judged yet.

    `origin`: measured, simulated, quoted, replayed, interactive or traffic. `why`: why it may not be compared, "" where
    it may; `doubt`: why it is provisional. `study`: the name that was asked. `metric`: the id of the sustained rate,
    `rate` its value with its unit, `beside` interval and n, "" for none. `is_here`: this machine measured it, as far as
    is known.
    """

    lens: str = ""
    study: str = ""
    model: str = "?"
    precision: str = "?"
    executor: str = "?"
    machine: str = "?"
    started: str = ""
    validity: str = UNJUDGED
    origin: str = "measured"
    why: str = ""
    doubt: str = ""
    metric: str = ""
    rate: str = ""
    beside: str = ""
    is_here: bool = False

    @property
    def may_be_compared(self) -> bool:
        return not self.why and self.validity in ("valid", "provisional", UNJUDGED)


def stamp_of(folder: str) -> Stamp:
    """What tells that a row is read anew."""
    return (*_stamp(f"{folder}/run.json"), *_stamp(f"{folder}/summary.json"))


def row_of(folder: str) -> Row:
    """The row of a run folder in any state; one that cannot be read is a row that says why."""
    try:
        data = _plain(folder, "run.json")
        if data is None:
            return _broken("it has no run.json any more")
        schema = data.get("schema")
        if isinstance(schema, int) and schema > RUN_SCHEMA:
            return _broken(f"it was written by a newer Twinlens (schema {schema}, and this one reads up to "
                           f"{RUN_SCHEMA}): update twinlens", started=_word(data.get("started_utc"), 20))  # fmt: skip
        summary = _believed(folder)
        return judged(_asked(data), summary) if summary is not None else _asked(data)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        said = getattr(error, "strerror", None) or str(error) or type(error).__name__
        return _broken(f"its run.json cannot be read: {clean(said, 120)}")


def judged(row: Row, summary: dict[str, Any]) -> Row:
    """A row with what a summary says of it, as plain data. Raises ValueError, KeyError and TypeError."""
    if row.validity != UNJUDGED:  # it runs, or it broke off: no rate of it stands beside others
        return row
    validity = _word(summary["validity"], 20)
    metric, shown, beside = _rate(row.lens, summary["metrics"])
    machine = summary.get("machine") or {}
    return replace(
        row,
        validity=validity,
        why=row.why or _why(validity, summary),
        doubt=could_hide(summary["verdict"].get("least_visible_change")) if validity == "provisional" else "",
        model=_word(summary.get("model")) if summary.get("model") else row.model,
        executor=_word(summary.get("executor")) if summary.get("executor") else row.executor,
        precision=_word(summary.get("point", {}).get("precision", row.precision)),
        machine=_word(machine["name"]) if machine.get("name") else row.machine,
        metric=metric,
        rate=shown,
        beside=beside,
    )


def _asked(data: dict[str, Any]) -> Row:
    """What a record says before any row is looked at. Raises KeyError and TypeError for what is none."""
    asked, facts = data["asked"], (data.get("facts") or {}).get("executor") or {}
    lens, state = data["lens"], data["state"]
    if lens not in HEADLINE or state not in _STATES:
        raise ValueError(f"lens {clean(lens, 30)!r} and state {clean(state, 30)!r} are none that a run has")
    kind = _word(asked["executor"]["kind"], 40)
    if state == "running" and is_gone(data.get("process")):
        state = "interrupted"
    origin, kept_apart = _origin(data, kind)
    validity = {"running": "running", "finished": UNJUDGED}.get(state, "not valid")
    error = clean(data.get("error") or "", 160)
    ended = {"running": "it is being measured", "finished": ""}.get(state, f"{state}: {error}" if error else state)
    return Row(
        lens=lens,
        study=_word(asked.get("name") or "", 60),
        model=_word(asked["workload"].get("model") or asked["workload"].get("exchange") or "?"),
        precision=_word((asked.get("point") or {}).get("precision", "?"), 40),
        executor=kind,
        machine=_machine(facts),
        started=_word(data.get("started_utc") or "", 20),
        validity=validity,
        origin=origin,
        why=ended or kept_apart,
        is_here=is_of_this_host(data.get("process")),
    )


def _origin(data: dict[str, Any], kind: str) -> tuple[str, str]:
    """Where its numbers come from, and why that keeps it apart from measured ones."""
    if data.get("simulated") is not None:
        return "simulated", "simulated: its rows come from a law, and nothing was measured"
    found = (data.get("facts") or {}).get("findings") or []
    if any(each.get("code") == "interactive" for each in found):  # `playground.beside.INTERACTIVE`, which is heavy
        return "interactive", "interactive: somebody chatted, and no protocol was kept"
    if any(each.get("code") == "traffic" for each in found):  # `gateway.watch.day.TRAFFIC`
        return "traffic", "traffic: clients asked a gateway as they liked, and nobody set the load"
    if kind == "from-log":
        return "quoted", "" if data.get("place") == "recorded" else "quoted: its steps are the words of a log"
    if kind == "replay":
        return "replayed", "replayed: recorded rows were played again"
    return "measured", ""


def _machine(facts: dict[str, Any]) -> str:
    """The accelerator or the processor that ran it, as captured."""
    for name in ("accelerator.product", "host.cpu.model"):
        if value := (facts.get(name) or {}).get("value"):
            return _word(value)
    return "not recorded"


def _believed(folder: str) -> dict[str, Any] | None:
    """A summary.json that this user's own program made; None where there is none, or another's."""
    try:
        data = _plain(folder, "summary.json")
        return data if data is not None and is_sealed(data, data.pop("seal")) else None
    except (OSError, ValueError, KeyError):
        return None


def _rate(lens: str, metrics: dict[str, Any]) -> tuple[str, str, str]:
    """The id of the sustained rate of a lens, its value, and its interval with n; empty for none."""
    for name in HEADLINE.get(lens, ()):
        if name in metrics:
            # sealed by us, or just made: it needs no check of its types, which takes pydantic
            found = Estimate(**{key: each for key, each in metrics[name].items() if key != "spread"})
            if found.value is not None:
                many = f" · n = {found.n:,}" if found.n else ""
                return name, display.value(found), f"{display.bounds(found) or 'no interval'}{many}"
    return "", "", ""


def _why(validity: str, summary: dict[str, Any]) -> str:
    """Why a run is not valid, in words."""
    verdict = summary["verdict"]
    if validity != "not valid":
        return ""
    if verdict.get("validity") == "not valid":
        return f"{label_words(_word(verdict['label']))}: {clause_of(decode(Finding, verdict['reason']))}"
    grave = [each for each in summary["findings"] if each.get("severity") == "disqualifies"]
    return clause_of(decode(Finding, grave[0])) if grave else "not valid"


def _broken(why: str, started: str = "") -> Row:
    return Row(validity="unreadable", origin="?", why=why, started=started)


def _word(value: Any, most: int = 80) -> str:
    return clean(value, most) if isinstance(value, str | int | float) else "?"


def _plain(folder: str, name: str) -> dict[str, Any] | None:
    """The JSON object of a regular file that is no link; None where there is none. Raises OSError and ValueError."""
    path = Path(folder, name)
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(mode):
        raise ValueError("it is a link, a pipe or a device, and no file")
    data = read_json(path, MOST_BYTES)
    if not isinstance(data, dict):
        raise ValueError("it is no JSON object")
    return data


def _stamp(path: str) -> tuple[int, int]:
    try:
        seen = os.lstat(path)
    except (OSError, ValueError):
        return 0, 0
    return seen.st_mtime_ns, seen.st_size
