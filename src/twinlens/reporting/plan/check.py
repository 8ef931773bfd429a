"""Document of `plan check`: what works together, then memory, power, link, errors, time and speed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from twinlens.planning.check.answer import Check, Ruling, Stack
from twinlens.planning.fit.serving import Serving
from twinlens.record.finding import Finding
from twinlens.reporting.display import clean
from twinlens.reporting.document.block import DETAIL, Arithmetic, Block, Cell, Document, Line, Table, Tone, row
from twinlens.reporting.wording.amount import amount
from twinlens.reporting.wording.finding import clause_of
from twinlens.reporting.wording.planned.plan import input_words, subject_words
from twinlens.theory.figure import Amount, Figure, Input
from twinlens.units import digits

_TONES: dict[str, Tone] = {"yes": "good", "limited": "doubt", "no": "bad", "unknown": "doubt"}
_HEADS: dict[bool | None, Tone] = {True: "good", False: "bad", None: "doubt"}
_FITS = {True: "yes", False: "no", None: "unknown"}


def check_document(check: Check, notes: Sequence[Finding] = ()) -> Document:
    return Document.of("Plan: check", _subject(check), _blocks(check, notes))


def _subject(check: Check) -> str:
    stack = check.stack
    return f"{clean(stack.model, 60)} in {clean(stack.precision, 40)} on {check.devices:,} × {stack.device.name}"


def _blocks(check: Check, notes: Sequence[Finding]) -> Iterator[Block]:
    yield Line(head_words(check), _HEADS[check.passes], is_lead=True)
    yield _table(check)
    yield row("power", [power_words(check)])
    yield row("link", [link_words(check)])
    yield row("errors", [error_words(check, True)], short=[error_words(check, False)])
    yield row("time", [time_words(check)] if check.time else [])
    yield row("speed", [speed_words(check)] if check.speed else [])
    yield row("sources", [f"{axis_words(each, check.stack)}: {_whole(each)}" for each in check.rulings], apart=True,
              rank=DETAIL)  # fmt: skip
    figures = tuple((each.name, each) for each in check.figures())
    yield Arithmetic(tuple(check.figures()), (), figures, tone="dim")
    yield row("assumed", [clause_of(each) for each in (*notes, *check.assumptions())], "dim")


def _whole(each: Ruling) -> str:
    return ruling_words(each, True) + (f" ({each.source}, {each.date})" if each.source else "")


def _table(check: Check) -> Table:
    fits = _FITS[check.memory.fits]
    rows: list[tuple[str, str, str]] = [
        (axis_words(each, check.stack), each.verdict, ruling_words(each, False)) for each in check.rulings
    ]
    rows.append(("memory of each", fits, _room(check)))
    shown = tuple((Cell(name), Cell(VERDICTS[verdict], _TONES[verdict]), Cell(words)) for name, verdict, words in rows)
    return Table("What works together.", ("", "", ""), shown, ("left", "left", "left"), remarks=True)


def _room(check: Check) -> str:
    needed, usable = check.memory.needed, check.memory.usable
    close = ", close" if check.memory.fits and check.memory.is_close else ""
    return f"{_gb(needed)} needed of {_gb(usable)} usable{close}"


def _gb(figure: Figure) -> str:
    return "more than is known" if figure.value is None else amount(float(figure.value), "bytes", plain=True)


# Sentences on what is checked before money or hours go: parts that work together, power, links, errors, speed.

VERDICTS = {"yes": "yes", "limited": "partly", "no": "no", "unknown": "not known"}
_RUNTIMES = {"vllm": "vLLM", "trtllm": "TensorRT-LLM", "llama.cpp": "llama.cpp"}


def head_words(check: Check) -> str:
    """The answer in one sentence."""
    unknown = sum(each.verdict == "unknown" for each in check.rulings)
    against = sum(each.verdict == "no" for each in check.rulings) + (check.memory.fits is False)
    what = f"{subject_words(check.plan)}, on {check.devices} × {clean(check.stack.device.name, 60)}"
    if against:
        return f"No, {_things(against)} against it: {what}."
    if check.passes is None:
        return f"Nothing forbids it, and {_things(max(unknown, 1))} not known: {what}."
    return f"Yes, these work together: {what}."


def _things(many: int) -> str:
    return "1 thing is" if many == 1 else f"{many} things are"


def axis_words(ruling: Ruling, stack: Stack) -> str:
    """What was asked: "vLLM on h100-sxm-80gb"."""
    runtime = _RUNTIMES.get(stack.runtime or "", "")
    driver = f"driver {clean(stack.driver, 20)}" if stack.driver else "the driver"
    return {
        "runtime-device": f"{runtime} on {stack.device.name}",
        "runtime-precision": f"{runtime} with {stack.precision}",
        "runtime-model": f"{runtime} with {clean(stack.model, 40)}",
        "driver-device": f"{driver} on {stack.device.name}",
        "driver-runtime": f"{driver} for {runtime}",
    }[ruling.axis]


def ruling_words(ruling: Ruling, why: bool = False) -> str:
    """Why: "needs 570 or newer: CUDA 12.8 is the first that knows it"; of what works only the short of it."""
    says = clean(ruling.says, 200) or "no row of the table is of it; --table FILE adds yours"
    if ruling.driver_from is None:
        return says
    needs = f"needs {clean(ruling.driver_from, 20)} or newer"
    return f"{needs}: {says}" if why or ruling.verdict == "no" else needs


def power_words(check: Check) -> str:
    found = {each.name: each for each in check.power}
    wall = found["wall"]
    if wall.value is None:
        return _why_not(wall)
    load = wall.inputs[0]
    rise = next(each for each in found["air"].inputs if each.name == "rise")
    volts = next(each for each in found["amps"].inputs if each.name == "volts")
    words = [
        f"{amount(_value(load), 'w')} of devices, {_said(wall)} at the wall",
        f"{_said(found['heat'])} of heat", f"{_said(found['air'])} of air at {_plain(rise)} K of rise",
        f"{_said(found['amps'])} at {_plain(volts)} V, on a circuit of {_said(found['circuit'])} or more",
    ]  # fmt: skip
    if "energy" in found:
        words.append(f"{_said(found['energy'])} in all")
    return "; ".join(words)


def link_words(check: Check) -> str:
    link = check.link
    if link is None:
        return "one device needs none"
    if link.enough is None:
        return _why_not(link.needed if link.needed.value is None else link.has)
    what = "prefill" if isinstance(check.plan, Serving) else "a step"
    enough = "is enough" if link.enough else "is too slow"
    return (
        f"{clean(link.link or '', 60)} {enough}: it has {_said(link.has)}, {what} needs {_said(link.needed)} "
        f"to spend at most 20 % of its time on it; here it is {_said(link.taken)}, if nothing is hidden"
    )


def error_words(check: Check, why: bool = False) -> str:
    """What is expected in that time. `why`: of every kind that was counted, else of the first."""
    ecc = {True: "ECC", False: "no ECC: a flipped bit stays unseen", None: "ECC not known"}[check.stack.device.ecc]
    words = [ecc]
    for each in check.errors if why else check.errors[:2]:
        if each.value is None:
            words.append(_why_not(each))
        elif each.unit == "events":
            words.append(f"{_span(each)} {_EVENTS[each.name]} expected")
        else:
            words[-1] += f" (at least one: {_said(each)})"
    source = next((each.source for each in check.errors if each.source), "")
    return "; ".join(words) + (f"; by {clean(source, 200)}" if source else "")


_EVENTS = {"interruptions": "interruptions", "memory-errors": "memory errors that stop it"}


def time_words(check: Check) -> str:
    """ "1,020 device-hours (816 to 1,360) 5.3 days on these; 12 h: 85 devices (68 to 114)"."""
    hours, run, *targets = check.time
    if hours.value is None:
        return _why_not(hours)
    words = [f"{_span(hours)} device-hours", f"{_said(run)} on these"]
    for each in targets:
        if each.value is None:
            words.append(_why_not(each))
            continue
        by = next(one for one in each.inputs if one.name in ("deadline", "within"))
        words.append(f"within {_plain(by, 3600)} h: {_span(each)} devices")
    mfu = next((each for each in hours.inputs if each.name == "mfu"), None)
    if mfu is None:
        return "; ".join(words) + " (predicted as `plan capacity` does, with its band)"
    return "; ".join(words) + f" (MFU {input_words(mfu)}, and the span of its band; nothing lost to division)"


def speed_words(check: Check) -> str:
    words = []
    for each in check.speed:
        pace = "fast" if each.name == "users-fast" else "slow"
        if each.value is None:
            words.append(f"{pace}: {_why_not(each)}")
            continue
        speed = next(one for one in each.inputs if one.name == "speed")
        words.append(f"{_span(each)} users at {_plain(speed)} tokens/s each ({pace})")
    return "; ".join(words)


def _why_not(figure: Figure) -> str:
    return "not known" if figure.reason is None else clause_of(figure.reason)


def _said(figure: Figure) -> str:
    return amount(_value(figure), figure.unit)


def _span(figure: Figure) -> str:
    value = _value(figure)
    if figure.low is None or figure.high is None or figure.low == figure.high:
        return _digits(value, figure.unit)
    return f"{_digits(value, figure.unit)} ({_digits(figure.low, figure.unit)} to {_digits(figure.high, figure.unit)})"


def _digits(value: Amount, unit: str) -> str:
    """Users and devices are whole."""
    return f"{value:,.0f}" if unit in ("users", "devices") else digits(float(value))


def _plain(each: Input | Figure, divisor: float = 1.0) -> str:
    """A number that was asked for, as it was."""
    return f"{_value(each) / divisor:.6g}"


def _value(each: Input | Figure) -> float:
    return float(each.value or 0)
