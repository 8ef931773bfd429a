"""Own runs and own constants as a choice takes them: for which devices, of which engine, by lens."""

from __future__ import annotations

from pathlib import Path

from twinlens.api.plan.calibrate import own_constants
from twinlens.api.plan.like import like_runs
from twinlens.api.plan.number import UNREADABLE
from twinlens.api.plan.probed import THIS
from twinlens.errors import BadInput
from twinlens.planning.choose.wanted import Own, Owns
from twinlens.planning.prediction.band import Calibrated
from twinlens.planning.prediction.calibrate import Lens
from twinlens.spec.catalogue import Catalogue


def owns_of(known: str | Path | None, like: str | Path | None, whole: Catalogue) -> Owns:
    """`known`: a file of `plan calibrate`; `like`: served runs, which go before it.

    Raises BadInput (TL231) for a file that does not say what its runs ran on, or of runs of several engines.
    """
    own: dict[Lens, Own] = {}
    if known is not None:
        own = {lens: _own(each, Path(known).name) for lens, each in own_constants(known).items()}
    if like is not None:
        this = next((each for each in whole.devices if each.name == THIS), None)
        seen = like_runs(like, this, None, 1, None)
        own["serving"] = Own(frozenset({seen.question.device.name}), seen.question.engine, seen.known)
    return own


def _own(known: Calibrated, name: str) -> Own:
    if not known.own:
        raise BadInput(f"{name} does not say what its runs ran on; write it again: plan calibrate -o", code=UNREADABLE)
    engines = sorted(known.own["engine"])
    if len(engines) > 1:
        raise BadInput(
            f"{name} is of runs of several engines ({', '.join(engines)}); calibrate each in a file of its own",
            code=UNREADABLE,
        )
    return Own(known.own["device"], engines[0], known)
