"""The verbs that take runs: read them, summarise them, show them, hand them on to other tools."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from twinlens.api.documented import Shown
from twinlens.api.question import asks
from twinlens.api.questions import SHOW, Show
from twinlens.errors import BadInput
from twinlens.measurement.search_from_rows import searches_of
from twinlens.measurement.summary_file import summary_of
from twinlens.record.beside import kept_profile, read_search, search_json, tried
from twinlens.record.estimate import Estimate
from twinlens.record.run import Run, Runs
from twinlens.record.store import find_runs, read_run
from twinlens.reporting.comparing.paired import paired_of
from twinlens.reporting.comparing.peers import peer_figures
from twinlens.reporting.document.terminal import screen
from twinlens.reporting.paired import paired_json
from twinlens.reporting.run.next_step import next_step
from twinlens.reporting.run.points import runs_document
from twinlens.reporting.text.fitted import plain
from twinlens.reporting.view import Material, each_once
from twinlens.reporting.wording.finding import with_words
from twinlens.stats.run_summary import to_json
from twinlens.stats.summary.group import Summary, group
from twinlens.version import __version__

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

    from twinlens.api.measuring.burnin import BurninResult
    from twinlens.api.measuring.tune import TuneResult
    from twinlens.api.words import ShowWords


PACK = "evidence.zip"
"""The pack of a folder that holds its runs packed."""


def read(*paths: str | Path, skip_broken: bool = False) -> Runs:
    """The runs in run folders, study folders, folders of them, or evidence packs (`.zip`, or a folder with one).

    Raises BadInput for a path without runs and for a run that cannot be read. `skip_broken`: such runs are left out,
    and `faults` says what is wrong with them, and with the records of searches; raised only where no run is left.
    """
    places = [_place(Path(path)) for path in paths]
    if not skip_broken:
        return Runs.of(run for place in places for run in find_runs(place))
    readable: list[Run] = []
    faults: list[BadInput] = []
    for folder in (folder for place in places for folder in _folders(place)):
        try:
            run = read_run(folder)
            summary_of(run)  # reads the rows, unless that was done since they were written
            tried(folder), kept_profile(folder)  # which a diagnosis reads
        except BadInput as error:
            faults.append(error)
        else:
            readable.append(run)
    for study in dict.fromkeys(run.folder.parent for run in readable):
        try:
            read_search(study)
        except BadInput as error:
            faults.append(error)
    runs = Runs(tuple(readable), tuple(faults))
    if faults and not readable:
        raise runs.fault
    return runs


def _place(path: Path) -> Path:
    """Where the runs of a path lie: a pack is unpacked, for as long as this process reads it."""
    path = path / PACK if (path / PACK).is_file() else path
    if path.suffix != ".zip" or not path.is_file():
        return path
    from twinlens.pack.unpacked import runs_of

    return runs_of(path)


def _folders(path: Path) -> list[Path]:
    if (path / "run.json").exists():
        return [path]
    folders = [record.parent for record in sorted(path.glob("**/run.json"))]
    return folders or [run.folder for run in find_runs(path)]  # which says what is wrong with the path


def summary(run: Run) -> Summary:
    """Every metric of a run, and whether it was steady."""
    return summary_of(run)


@asks(SHOW)
def show(*runs: str | Path | Run | Iterable[Run], **words: Unpack[ShowWords]) -> str:
    """The text that `twinlens show` prints, as text of 80 columns: of runs, of several at once (`tl.show(tl.read(…))`),
    or of folders. `whole`: every metric of a run that stands alone. Raises BadInput as `read` does.
    """
    whole = Show.read(SHOW.name, {"runs": runs, **words}).whole
    if (found := answer_at(runs)) is not None:
        return Shown(plain(found.screen(why=whole)))
    chosen = [run for each in runs for run in _runs_of(each)]
    return Shown(plain(screen(runs_document(material_of(chosen), searches_of(chosen)), whole=whole)))


def answer_at(given: Sequence[Any]) -> BurninResult | TuneResult | None:
    """The burn-in or the tuning of a folder or a pack, as far as it is, where that is all that was given; else None."""
    from twinlens.acceptance.window import BURNIN_FILE
    from twinlens.tuning.ledger import FILE as LEDGER_FILE

    files = (BURNIN_FILE, LEDGER_FILE)
    only = _alone_in(_place(Path(given[0])), files) if len(given) == 1 and isinstance(given[0], str | Path) else None
    if only is not None and (only / BURNIN_FILE).is_file():
        from twinlens.api.measuring.burnin import shown

        return shown(only)
    if only is not None and (only / LEDGER_FILE).is_file():
        from twinlens.api.measuring.tune import tuned

        return tuned(only)
    return None


def _alone_in(place: Path, files: Sequence[str]) -> Path:
    """The one folder of a pack that was unpacked, with one of those files; the place itself where it is none or holds
    several."""
    if any((place / each).is_file() for each in files) or not place.is_dir():
        return place
    found = {path.parent for name in files for path in place.glob(f"*/{name}")}
    return next(iter(found)) if len(found) == 1 and len(list(place.iterdir())) == 1 else place


def _runs_of(given: str | Path | Run | Iterable[Run]) -> Iterable[Run]:
    if isinstance(given, str | Path):
        return read(given)
    return (given,) if isinstance(given, Run) else given


def peers(run: Run, tool: str) -> dict[str, Estimate]:
    """The figures another tool would print of a served run, by its names: `tl.peers(run, "vllm")["p99_ttft_ms"]`.

    `tool`: vllm, guidellm, aiperf, mlperf, genai-bench or inference-perf. Raises BadInput.
    """
    return peer_figures(run, tool)


def frame(runs: Run | Iterable[Run]) -> pd.DataFrame:
    """Every metric of some runs as a pandas DataFrame, a row for each run and metric, values in SI units.

    Columns: `reporting/tidy.py`. Raises BadInput (TL207) where pandas is not installed.
    """
    try:
        import pandas as pd
    except ImportError:
        raise BadInput("a data frame needs pandas: pip install 'twinlens[pandas]'", code="TL207") from None
    from twinlens.reporting.tidy import COLUMNS, tidy_rows

    chosen = (runs,) if isinstance(runs, Run) else runs
    return pd.DataFrame(tidy_rows(map(summary_of, chosen)), columns=list(COLUMNS))


def rows(*runs: Run) -> pa.Table:
    """The steps, requests or exchanges of some runs as one Arrow table, nothing derived, the run's id in front of each.

    DuckDB reads it as it is, and `.to_pandas()` makes a DataFrame of it. Raises BadInput for no run, for runs of
    several lenses, which share no columns, and for damaged rows.
    """
    import pyarrow as pa

    if len({run.lens for run in runs}) != 1:
        given = "runs of several" if runs else "no run"
        raise BadInput(f"give runs of one lens, not {given}: steps, requests and exchanges share no columns")
    tables = [run.table.add_column(0, "run", pa.array([run.id] * len(run.table), pa.string())) for run in runs]
    return pa.concat_tables(tables, promote_options="default")


def write_rows(runs: Iterable[Run], file: str | Path) -> Path:
    """The rows of some runs (`rows`) as one Parquet file. Raises BadInput, also where its folder is not there."""
    from pyarrow import parquet

    path = Path(file)
    if not path.parent.is_dir():
        raise BadInput(f"there is no folder {str(path.parent)!r} for the rows; make it, or name another file")
    parquet.write_table(rows(*runs), path)
    return path


def material_of(runs: Iterable[Run]) -> tuple[Material, ...]:
    """Runs with their summaries: what tables and reports are made of."""
    return tuple((run, summary_of(run)) for run in runs)


def as_json(runs: Iterable[Run]) -> Any:
    """The summary of one run, or a list of several, beside the searches they belong to: what summary.json holds, with
    `text` and `advice` in each finding, and `next`, the one thing to try."""
    kept, _ = each_once(material_of(runs))
    chosen, summaries = [run for run, _ in kept], [summary for _, summary in kept]
    data = [{"twinlens": __version__} | to_json(each) | {"next": next_step(run, each)} for run, each in kept]
    searches = [search_json(record) for record in searches_of(chosen, skip_broken=True)]
    turns = paired_json(paired_of(group(summaries), chosen))
    beside = ({"searches": searches} if searches else {}) | ({"paired": turns} if turns else {})
    if beside and len(data) > 1:
        return with_words(beside | {"runs": data})
    return with_words(data[0] if len(data) == 1 else data)
