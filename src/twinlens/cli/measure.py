"""`twinlens measure`: run a study, say where it went, show what it came to."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from twinlens.cli.asked import Asked, study_of
from twinlens.cli.help import GATES
from twinlens.cli.opening import opening
from twinlens.cli.screen import err, print_json, sentences
from twinlens.errors import BadInput

if TYPE_CHECKING:
    from twinlens.record.run import Run


@dataclass(frozen=True, slots=True)
class Switches:
    """The options of `measure` that ask for no other work. `gate`: the state that it demands, None for no gate."""

    json: bool
    quiet: bool
    fresh: bool
    gate: str | None


def cluster(on: str | None) -> list[str]:
    """`--on` as the setting that it stands for."""
    return [] if on is None else [f"executor.options.on={json.dumps(on)}"]


def kept_weights(runs: Iterable[Run]) -> list[Path]:
    """The folders of weights that runs kept (`workload.save`), to be named as `workload.model` of another study."""
    return [kept for run in runs if (kept := run.folder / "weights").is_dir()]


def run(asked: Asked, out: Path, switches: Switches) -> None:
    with sentences():
        if switches.gate not in (None, *GATES):
            raise BadInput(f"--gate demands {' or '.join(GATES)}, not {switches.gate!r}")
        study, given_up = study_of(asked)
        if not switches.quiet:
            for line in filter(None, [*opening(study), given_up]):
                err().print(line, soft_wrap=True)
        # The rest takes a second to load: what is about to happen is on screen by then.
        from twinlens.api.gate import gate, raise_failures
        from twinlens.api.runs import as_json
        from twinlens.api.studies import measure
        from twinlens.cli.progress import progress, tell_refusals
        from twinlens.cli.show import print_runs
        from twinlens.record.store import end_study

        outcome = measure(study, out, watch=progress(switches.quiet), fresh=switches.fresh, keep_open=True)
        tell_refusals([outcome])
        if switches.json:
            print_json(as_json(outcome.runs))
        else:
            print_runs(outcome.runs)
            err().print(f"\nruns: {outcome.folder}", soft_wrap=True)
            for kept in kept_weights(outcome.runs):
                err().print(f"weights: {kept}", soft_wrap=True)
        sys.stdout.flush()
        end_study(outcome.folder)
        raise_failures(outcome)
        if switches.gate is not None:
            gate(outcome, switches.gate)
