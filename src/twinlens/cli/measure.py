"""`twinlens measure`: run a study, say where it went, show what it came to."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from twinlens.api.questions import Measure
from twinlens.api.spec_asked import study_of
from twinlens.cli.help import GATES
from twinlens.cli.opening import opening
from twinlens.cli.screen import err, print_json, sentences
from twinlens.errors import BadInput

if TYPE_CHECKING:
    from twinlens.record.run import Run


def kept_weights(runs: Iterable[Run]) -> list[Path]:
    """The folders of weights that runs kept (`workload.save`), to be named as `workload.model` of another study."""
    return [kept for run in runs if (kept := run.folder / "weights").is_dir()]


def run(name: str, given: Mapping[str, Any]) -> None:
    with sentences():
        asked = Measure.read(name, given)
        if asked.gate not in (None, *GATES):
            raise BadInput(f"--gate demands {' or '.join(GATES)}, not {asked.gate!r}")
        study, given_up = study_of(asked.spec, asked)
        if not asked.quiet:
            for line in filter(None, [*opening(study), given_up]):
                err().print(line, soft_wrap=True)
        # The rest takes a second to load: what is about to happen is on screen by then.
        from twinlens.api.gate import gate, raise_failures
        from twinlens.api.runs import as_json
        from twinlens.api.studies import measure
        from twinlens.cli.progress import progress, tell_refusals
        from twinlens.cli.show import print_runs
        from twinlens.record.store import end_study

        outcome = measure(study, asked.out, watch=progress(asked.quiet), fresh=asked.fresh, keep_open=True)
        tell_refusals([outcome])
        if asked.json_:
            print_json(as_json(outcome.runs))
        else:
            print_runs(outcome.runs)
            err().print(f"\nruns: {outcome.folder}", soft_wrap=True)
            for kept in kept_weights(outcome.runs):
                err().print(f"weights: {kept}", soft_wrap=True)
        sys.stdout.flush()
        end_study(outcome.folder)
        raise_failures(outcome)
        if asked.gate is not None:
            gate(outcome, asked.gate)
