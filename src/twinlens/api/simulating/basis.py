"""The basis of a simulation from words: learnt from measured runs, read from a table, or modelled for a device."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from twinlens.api.compare import sides
from twinlens.api.simulating.settings import UNREADABLE, Settings
from twinlens.errors import BadInput, nearest
from twinlens.record.run import Run
from twinlens.simulation.law import Affine, StepLaw
from twinlens.simulation.points.basis import Basis
from twinlens.simulation.points.energy import Power, Powers
from twinlens.simulation.rules import Rules
from twinlens.spec.catalogue import catalogue_of
from twinlens.spec.device import Device, find_device
from twinlens.spec.model.shape import DecoderShape
from twinlens.spec.study import RunSpec
from twinlens.system.document import read_json, read_toml
from twinlens.system.home_folder import catalogue_folder

if TYPE_CHECKING:  # planning is loaded where a law is modelled
    from twinlens.planning.prediction.constant import Values
    from twinlens.planning.prediction.place import Layout, Rates
    from twinlens.planning.prediction.work import Work

_TERMS = tuple(each.name for each in fields(Affine))
_OUTSIDE = ("before_s", "after_s")
_POWER = ("idle_w", "step_j", "token_j")
_DRAWS = 41


def basis_of(
    like: Sequence[Any], law: Path | None, device: str | None, spec: RunSpec, settings: Settings, devices: int = 1
) -> Basis:
    """The law, its draws and the rules. Raises BadInput (TL250) unless one origin is named, and as each origin does."""
    named = [name for name, given in (("--like", like), ("--law", law), ("--device", device)) if given]
    if len(named) != 1:
        what = " and ".join(named) if named else "nothing"
        raise BadInput(
            f"a simulation has one law, and {what} was given: name measured runs (--like RUN), a table (--law FILE) or "
            "a device of the catalogue (--device H100)", code=UNREADABLE)  # fmt: skip
    if device is not None:
        found = modelled(spec, settings.device or device, devices)
    else:
        found = learnt(like) if like else quoted(law or Path())
        if settings.device is not None:
            found = _on(found, settings.device, [run for each in like for run in runs_of(each)])
    return replace(found, rules=replace(found.rules, **settings.rules)).faster(**settings.factors)


def learnt(like: Sequence[Any]) -> Basis:
    """The law of measured runs. Raises BadInput (TL245) for runs that teach none."""
    from twinlens.simulation.fit.learn import learn

    runs = [run for each in like for run in runs_of(each)]
    if simulated := next((run for run in runs if run.place == "simulated"), None):
        raise BadInput(f"{simulated.id} is simulated, and a law is learnt from what was measured", code=UNREADABLE)
    known = learn(runs)
    reach = {name: (span.least, span.most) for name, span in known.reach.items()}
    assumed = (f"the server did not say {', '.join(known.assumed)}: as shipped",) if known.assumed else ()
    source = f"{len(runs)} measured run{'' if len(runs) == 1 else 's'} of {known.servers} server"
    source += "" if known.servers == 1 else "s"
    return Basis(
        replace(known.law, source=source), known.rules, known.draws, known.noise, reach,
        _product(runs), (*known.doubts, *assumed), known.powers,
    )  # fmt: skip


def runs_of(given: Any) -> list[Run]:
    """A run, several, or a folder of them; FOLDER@rate_per_s=4: one point of it."""
    if isinstance(given, str | Path):
        return [run for side in sides(str(given), False) for run in side.runs]
    return [given] if isinstance(given, Run) else list(given)


def _product(runs: Sequence[Run]) -> str:
    facts = runs[0].facts
    named = [facts.executor.value(each) for each in ("accelerator.product", "host.cpu.model")] if facts else []
    return str(next(filter(None, named), ""))


def quoted(path: Path) -> Basis:
    """A table of constants in TOML or JSON: those of `Affine`, or several in `parts`, with before_s, after_s, source,
    and idle_w, step_j, token_j of an engine's power.

    Raises BadInput (TL250) for a file that is none, an unknown name, and a value that is no number from 0 on.
    """
    data = table_of(path)
    parts = data.get("parts", [{name: data[name] for name in _TERMS if name in data}])
    known = (*(("parts",) if "parts" in data else _TERMS), *_OUTSIDE, *_POWER, "source", "origin", "device", "training")
    for name in data:
        if name not in known:
            raise BadInput(f"a law has no {str(name)[:40]!r}; {nearest(str(name), known)}", code=UNREADABLE)
    if not isinstance(parts, list) or not parts or not all(isinstance(each, dict) for each in parts):
        raise BadInput("the parts of a law are tables of constants, at least one: [[parts]]", code=UNREADABLE)
    outside = {name: _seconds(name, data[name]) for name in _OUTSIDE if name in data}
    law = StepLaw(tuple(map(_affine, parts)), **outside, origin="quoted", source=str(data.get("source", path.name)))
    return Basis(law, device=str(data.get("device", "")), powers=_powers(data))


def _powers(data: dict[str, Any]) -> Powers:
    """What an engine draws, where a table says it. Raises BadInput (TL250) for joules without idle watts, or without
    those of a step."""
    said = {name: _amount(name, data[name]) for name in _POWER if name in data}
    if not said:
        return Powers()
    if missing := [name for name in _POWER[:2] if name not in said]:
        raise BadInput(f"a law that says {', '.join(said)} says {' and '.join(missing)} too: watts of an engine that "
                       "waits, and joules of a step beyond that", code=UNREADABLE)  # fmt: skip
    return Powers(Power(said["idle_w"], said["step_j"], said.get("token_j", 0.0)))


def table_of(path: Path) -> dict[str, Any]:
    """The constants of a file in TOML or JSON. Raises BadInput (TL250) for a file that is none."""
    try:
        data = read_json(path) if path.suffix == ".json" else read_toml(path)
    except (OSError, ValueError) as error:
        raise BadInput(f"the law {str(path)!r} cannot be read ({str(error).splitlines()[0]}); it is TOML or JSON such "
                       "as fixed_s = 0.012", code=UNREADABLE) from None  # fmt: skip
    if not isinstance(data, dict):
        raise BadInput(f"the law {str(path)!r} is no table of constants such as fixed_s = 0.012", code=UNREADABLE)
    return data


def _affine(part: dict[str, Any]) -> Affine:
    for name in part:
        if name not in _TERMS:
            raise BadInput(f"a part of a law has no {str(name)[:40]!r}; {nearest(str(name), _TERMS)}", code=UNREADABLE)
    if "fixed_s" not in part:
        raise BadInput("a part of a law has fixed_s, the seconds of every step; it is missing", code=UNREADABLE)
    return Affine(**{name: _seconds(name, value) for name, value in part.items()})


def _seconds(name: str, value: object) -> float:
    return _amount(name, value, " of seconds")


def _amount(name: str, value: object, of: str = "") -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not math.isfinite(float(value)) or float(value) < 0:  # type: ignore[arg-type]
        raise BadInput(f"{name} of a law is a number{of} from 0 on, not {str(value)[:40]!r}", code=UNREADABLE)
    return float(value)  # type: ignore[arg-type]


def device_named(name: str) -> Device:
    from twinlens.api.plan.reading.subject import asked_device

    found, _ = asked_device(name, None, catalogue_of(catalogue_folder(None)))
    assert found is not None, "a name was given"
    return found


def _on(basis: Basis, device: str, runs: Sequence[Run]) -> Basis:
    """A measured law on another device: its memory and matrix units by the ratio of the two devices' datasheets."""
    here, there = find_device(basis.device), device_named(device)
    if here is None:
        raise BadInput(
            f"the law is of {basis.device or 'a machine that is not named'}, which is not in the catalogue: how much "
            f"faster {there.name} is is not known; give --device {there.name} in place of the law",
            code=UNREADABLE,
        )
    precision = runs[0].spec.point.precision if runs else "bf16"
    slow, fast = (_rates(each, precision) for each in (here, there))
    moved = basis.faster(bandwidth=fast[0] / slow[0], compute=fast[1] / slow[1])
    return replace(moved, device=there.name)


def _rates(device: Device, precision: str) -> tuple[float, float]:
    """Bytes and FLOP per second by the datasheet, at the precision."""
    from twinlens.planning.prediction.place import rates_of
    from twinlens.planning.prediction.work import stored

    found = rates_of(device, stored(precision), "vllm")
    return float(found.bytes_per_s), float(found.flop_per_s)


def modelled(spec: RunSpec, name: str, devices: int = 1) -> Basis:
    """The law that theory gives of a model on a tensor group, with the band of the planner's predictions as its draws.

    Step times of the planner (roofs with fitted shares of the peak) as two lines, of which the slower decides: weights
    and cache read, and products computed.
    """
    from twinlens.planning.prediction.answer import refuse_processor, room, serving_groups
    from twinlens.planning.prediction.band import shipped
    from twinlens.planning.prediction.place import layout_of, rates_of
    from twinlens.planning.prediction.question import ServingQuestion
    from twinlens.planning.prediction.work import work_of

    shape, device, known = spec.model.shape, device_named(name), shipped()["serving"]
    if not isinstance(shape, DecoderShape):
        raise BadInput(f"{spec.workload.model} is no decoder: its steps are not modelled", code=UNREADABLE)
    refuse_processor(device, known)
    length = min(1024.0, shape.max_context / 2)
    question = ServingQuestion(
        spec.workload.model,
        shape,
        device,
        spec.point.precision,
        length,
        length,
        users=1.0,
        tensor=devices,
        engine="vllm",
    )
    kept = question.kept
    layout = layout_of(question.engine, devices, 1, 1)
    fitted = known.constants.at(serving_groups(question))
    times = _Times(work_of(shape, kept), rates_of(device, kept, question.engine), layout, fitted)
    most = float(room(question))
    if most < 1:
        raise BadInput(f"{spec.workload.model} in {spec.point.precision} has no room on {devices} × {device.name}",
                       code=UNREADABLE)  # fmt: skip
    named = device.name if devices == 1 else f"{devices} × {device.name}"
    rules = Rules(num_gpu_blocks=int(most * 2 * length / Rules().block_size))
    law = StepLaw(times.parts(), before_s=fitted.arrive_s, origin="modelled", source=f"theory and {named}")
    band = known.band("tpot", device=device.name, engine="vllm", model=spec.workload.model)
    return Basis(law, rules, _scaled(law, band.low, band.high), device=named,
                 doubts=(f"steps are modelled within × {band.low:.2f} to × {band.high:.2f}",))  # fmt: skip


class _Times:
    """Step times of the planner as lines: slopes between two points where one roof decides."""

    def __init__(self, work: Work, rates: Rates, layout: Layout, fitted: Values) -> None:
        self._place = work, rates, layout, fitted

    def _decode(self, batch: float, context: float) -> float:
        from twinlens.planning.prediction.step_time import decode_step

        return float(decode_step(*self._place, batch, context).total_s)

    def _prefill(self, tokens: float, length: float) -> float:
        from twinlens.planning.prediction.step_time import prefill

        return float(prefill(*self._place, tokens, length).total_s)

    def parts(self) -> tuple[Affine, Affine]:
        small, large, context = 1.0, 1e5, 1024.0
        context_s = (self._decode(8.0, 2 * context) - self._decode(8.0, context)) / (8.0 * context)
        read_row_s = max(0.0, self._decode(2.0, 1.0) - self._decode(small, 1.0))
        read_fixed_s = self._decode(small, 1.0) - read_row_s - context_s
        row_s = (self._decode(2 * large, 1.0) - self._decode(large, 1.0)) / large - context_s
        token_s = (self._prefill(2 * large, 128.0) - self._prefill(large, 128.0)) / large
        longer_s = (self._prefill(2 * large, 256.0) - self._prefill(large, 256.0)) / large
        pair_s = max(0.0, (longer_s - token_s) / 64.0)
        fixed_s = max(0.0, self._decode(large, 1.0) - large * (row_s + context_s))
        return (
            Affine(max(read_fixed_s, 1e-9), read_row_s, context_s, 0.0, pair_s),
            Affine(max(fixed_s, 1e-9), max(row_s, 0.0), context_s, max(token_s - 64.0 * pair_s, 0.0), pair_s),
        )


def _scaled(law: StepLaw, low: float, high: float) -> tuple[StepLaw, ...]:
    """The law times factors whose 5th and 95th of a hundred are `low` and `high`, evenly by probability."""
    from scipy.special import ndtri

    z = ndtri((np.arange(_DRAWS) + 0.5) / _DRAWS)
    factors = np.exp(np.where(z < 0, -z * math.log(low), z * math.log(high)) / float(ndtri(0.95)))
    return tuple(
        replace(law, parts=tuple(Affine(*(getattr(part, name) * factor for name in _TERMS)) for part in law.parts))
        for factor in map(float, factors)
    )
