"""The runs that a command line names: what can be read, and what cannot, so that one broken run hides no other."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from twinlens.errors import BadInput
from twinlens.measurement.summary_file import summary_of
from twinlens.record.run import Run
from twinlens.record.store import find_runs, read_run


def gathered(paths: Iterable[Path]) -> tuple[list[Run], list[BadInput]]:
    """The runs at some paths whose record and rows can be read, and what is wrong with the others.

    Raises BadInput where a path holds no run, or none that can be read.
    """
    runs: list[Run] = []
    faults: list[BadInput] = []
    for path in paths:
        is_run = (path / "run.json").exists()
        folders = [path] if is_run else [record.parent for record in sorted(path.glob("**/run.json"))]
        if not folders:
            find_runs(path)  # it says what is wrong with the path
        for folder in folders:
            try:
                run = read_run(folder)
                summary_of(run)  # reads the rows, unless that was done since they were written
            except BadInput as error:
                faults.append(error)
            else:
                runs.append(run)
    if faults and not runs:
        fail_for(faults)
    return runs, faults


def fail_for(faults: Sequence[BadInput]) -> None:
    """Raises BadInput for runs that cannot be read, after the others were shown; nothing where there are none."""
    if faults:
        more = f" (and {len(faults) - 1} more that cannot be read)" if len(faults) > 1 else ""
        raise BadInput(f"{faults[0]}{more}", code=faults[0].code)
