"""The verb that tunes: a search within a declared bound, and the winner measured again beside the default."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from twinlens.api.documented import Documented
from twinlens.api.measuring.progress import Progress, watching
from twinlens.api.question import asks
from twinlens.api.questions import TUNE
from twinlens.api.questions import Tune as Asked
from twinlens.measurement.event import Watch
from twinlens.record.codec import encode
from twinlens.spec.load import load, parse
from twinlens.spec.study import Study
from twinlens.tuning.tuning import Tuning, end_tuning, measure_tuning, read_tuning, unfinished_tuning
from twinlens.version import __version__

if TYPE_CHECKING:
    from twinlens.api.words import TuneWords
    from twinlens.reporting.document.block import Document


@dataclass(frozen=True, slots=True, repr=False)
class TuneResult(Documented):
    """What `tune` found: the default, the winner as searched and as measured again, and every trial.

    `tuning`: all of it; `folder`: where its ledger and its runs are.
    """

    tuning: Tuning

    @property
    def folder(self) -> Path:
        """The folder of the ledger, the candidates' runs, and the proof."""
        return self.tuning.folder

    @property
    def settings(self) -> dict[str, Any]:
        """The winner's settings by dotted path of a spec; empty where no candidate was better than the default."""
        space = self.tuning.bound.space
        return {space[name][0].path: value for name, value in self.tuning.winner.settings.items()}

    def document(self) -> Document:
        from twinlens.reporting.judging.tuning import tuning_document

        return tuning_document(self.tuning)

    def to_json(self) -> dict[str, Any]:
        """As plain data: the bound, the winner, every trial of the ledger, the proof, and conditions elsewhere."""
        found = self.tuning
        return {
            "schema": 1, "twinlens": __version__, "folder": str(found.folder), "bound": found.bound.hash,
            "terms": found.bound.terms,
            "space": {name: list(values) for name, (_, values) in found.bound.space.items()},
            "settings": self.settings, "winner": found.winner.number, "trials": encode(found.standing.trials),
            "spent_s": found.standing.spent_s, "ended_because": found.standing.why_over or None,
            "searched": encode(found.searched), "proof": encode(found.proof),
            "effects": [encode(each) | {"matters": each.matters} for each in found.effects],
            "elsewhere": encode(found.elsewhere), "guards": encode(found.guards),
            "engineer_hours": found.bound.tune.engineer_hours,
        }  # fmt: skip


@asks(TUNE)
def tune(
    study: Study | str | Path,
    out: str | Path = "runs",
    *,
    watch: Watch | Progress | None = Progress(),
    keep_open: bool = False,
    **words: Unpack[TuneWords],
) -> TuneResult:
    """Tune a spec within the bound that its table [tune] declares, and prove the winner beside the default.

    `study`: a study, a spec file or an example by its name; `set_="tune.budget.trials=20"` changes it. An unfinished
    tuning of the same spec under `out` goes on, unless `fresh`. A folder of a tuning as `study` is read, and nothing is
    measured. `watch`, `keep_open`: as of `measure`. Raises BadInput (TL262, TL265) before any work, and Interrupted.
    """
    asked = Asked.read(TUNE.name, {"spec": study.name if isinstance(study, Study) else study, "out": out, **words})
    chosen = parse(study.to_dict(), asked.set_) if isinstance(study, Study) else load(asked.spec, asked.set_)
    resumed = None if asked.fresh else unfinished_tuning(chosen, asked.out)
    with watching(watch, chosen, resumed) as told:
        folder = measure_tuning(chosen, asked.out, told, fresh=asked.fresh)
    found = TuneResult(read_tuning(folder))
    if not keep_open:
        end_tuning(folder)
    return found


def tuned(folder: str | Path) -> TuneResult:
    """The tuning in a folder, as far as it is. Raises BadInput (TL205) for a folder that holds none."""
    return TuneResult(read_tuning(Path(folder)))
