"""Proposals: the next candidate of a space, by Optuna's TPE, by chance or from a whole grid.

A proposal is a function of what the ledger holds and of the seed, so that a search that was killed goes on with the
same candidates.
"""

from __future__ import annotations

import random
import warnings
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import TYPE_CHECKING, Any

from twinlens.errors import BadInput
from twinlens.spec.tune import Sampler
from twinlens.tuning.setting import Chosen, Setting

if TYPE_CHECKING:
    from optuna import Study
    from optuna.distributions import BaseDistribution
    from optuna.trial import Trial

Settings = Mapping[str, Any]
_ASKS = 8
"""Proposals of the sampler that were tried before, after which an untried candidate is drawn by chance."""
_MOST_COUNTED = 200_000


def proposed(
    space: Chosen, default: Settings, seen: Mapping[str, tuple[Settings, float | None]], sampler: Sampler, seed: int
) -> tuple[Settings, str] | None:
    """The next candidate and what proposed it; None where all were tried.

    `default`: the values that the spec has, by name. `seen`: by key, each candidate and its mean log gain over the
    default; None where it races still, or had none. Settings of a candidate are those that differ from the default.
    """
    if sampler == "tpe" and len(seen) > max(3, len(space)):
        for asked in _asked(space, default, list(seen.values()), f"{seed}/{len(seen)}"):
            if key_of(asked) not in seen:
                return asked, "tpe"
    untried = [each for each in candidates(space, default) if key_of(each) not in seen]
    if not untried:
        return None
    return random.Random(f"{seed}/{len(seen)}").choice(untried), "grid" if sampler == "grid" else "random"


def candidates(space: Chosen, default: Settings) -> list[Settings]:
    """Every candidate of a space once, the default first. Raises BadInput (TL262) where they are too many to list."""
    count = 1
    for _, values in space.values():
        count *= len(values)
    if count > _MOST_COUNTED:
        raise BadInput(f"[tune]: space has {count} combinations; name fewer values", code="TL262")
    found: dict[str, Settings] = {key_of({}): {}}
    for values in product(*(values for _, values in space.values())):
        asked = changed(space, dict(zip(space, values, strict=True)), default)
        found.setdefault(key_of(asked), asked)
    return list(found.values())


def changed(space: Chosen, values: Settings, default: Settings) -> Settings:
    """What of `values` differs from the default and may be set: without settings whose condition is not met."""
    kept: dict[str, Any] = {}
    for name, value in values.items():
        if value != default.get(name) and _is_met(space[name][0], {**default, **values}):
            kept[name] = value
    return kept


def key_of(settings: Settings) -> str:
    """One text for each candidate, whatever the order of its settings."""
    return repr(sorted(settings.items()))


def _is_met(setting: Setting, values: Settings) -> bool:
    """A condition on what the space does not vary was looked at when the space was read."""
    return all(other not in values or values[other] in allowed for other, allowed in setting.only_with.items())


def _asked(
    space: Chosen, default: Settings, seen: Sequence[tuple[Settings, float | None]], seed: str
) -> Iterator[Settings]:
    """Candidates of TPE, told of all that were seen; those that race still count as the worst so far."""
    try:
        import optuna
    except ImportError as error:
        raise BadInput(f"the sampler tpe needs Optuna: pip install 'twinlens[tune]' ({error})", code="TL262") from None
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        number = random.Random(seed).getrandbits(32)
        sampler = optuna.samplers.TPESampler(seed=number, multivariate=True, n_startup_trials=1)
        study = optuna.create_study(direction="maximize", sampler=sampler)
        _tell(study, space, default, seen)
        for _ in range(_ASKS):
            yield changed(space, dict(_values(study.ask(), space)), default)


def _tell(study: Study, space: Chosen, default: Settings, seen: Sequence[tuple[Settings, float | None]]) -> None:
    """Tell of candidates that have one of the listed values of each setting: TPE models these together."""
    from optuna.trial import create_trial

    worst = min((gain for _, gain in seen if gain is not None), default=0.0)
    distributions = {name: _distribution(values) for name, (_, values) in space.items() if len(values) > 1}
    for settings, gain in seen:
        whole = {**default, **settings}
        places = {name: _place(space[name][1], whole.get(name)) for name in distributions}
        if None not in places.values():
            value = worst if gain is None else gain
            study.add_trial(create_trial(params=dict(places), distributions=distributions, value=value))


def _values(trial: Trial, space: Chosen) -> Iterator[tuple[str, Any]]:
    for name, (_, values) in space.items():
        if len(values) == 1:
            yield name, values[0]
        elif _is_ordered(values):
            yield name, values[trial.suggest_int(name, 0, len(values) - 1)]
        else:
            yield name, values[trial.suggest_categorical(name, tuple(range(len(values))))]


def _distribution(values: Sequence[Any]) -> BaseDistribution:
    from optuna.distributions import CategoricalDistribution, IntDistribution

    if _is_ordered(values):
        return IntDistribution(0, len(values) - 1)
    return CategoricalDistribution(tuple(range(len(values))))


def _is_ordered(values: Sequence[Any]) -> bool:
    """Whether neighbours among the values are alike: numbers, from the least to the most."""
    numbers = [value for value in values if isinstance(value, int | float) and not isinstance(value, bool)]
    return len(numbers) == len(values) > 2 and numbers == sorted(numbers)


def _place(values: Sequence[Any], value: Any) -> int | None:
    return next((place for place, each in enumerate(values) if each == value), None)
