"""One side of a comparison: a name, the repeats of one operating point, and the runs behind them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from twinlens.record.run import Run
from twinlens.stats.summary.group import Group


@dataclass(frozen=True, slots=True)
class Side:
    """`name`: what it is called beside the other; `runs`: those of `group`, in its order; `folder`: where they lie."""

    name: str
    group: Group
    runs: tuple[Run, ...]
    folder: str = ""

    @property
    def lens(self) -> Literal["training", "inference"]:
        return self.group.lens

    @property
    def spec(self) -> dict[str, Any]:
        """All that was asked, as plain data; repeats share it but for the repeat.

        The precision is that of the group: a server that was up already has its own, whatever the default of a spec.
        """
        asked = self.runs[0].spec.to_dict()
        return asked | {"point": asked["point"] | {"precision": self.group.point["precision"]}}
