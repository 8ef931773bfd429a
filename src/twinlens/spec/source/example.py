"""The specs that Twinlens ships, by name: `twinlens measure chat`, `twinlens new chat`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from twinlens.errors import BadInput, nearest
from twinlens.system.document import toml_of

_GROUPS = ("demo", "training", "inference", "serving", "collective")


@dataclass(frozen=True, slots=True)
class Example:
    """One shipped spec. `group`: demo, training, inference (in batches), serving (requests that
    arrive) or collective (exchanges between ranks)."""

    name: str
    group: str
    text: str

    @property
    def about(self) -> str:
        """Its first line, which says what it is for."""
        return self.text.partition("\n")[0].lstrip("# ").strip()


def examples() -> tuple[Example, ...]:
    """All of them, group by group, each group by name."""
    return tuple(sorted(_shipped().values(), key=lambda shipped: (_GROUPS.index(shipped.group), shipped.name)))


def find_example(word: str) -> Example | None:
    """The example of this name, with or without `.toml`; None where there is none."""
    return _shipped().get(word.removesuffix(".toml"))


def example(word: str) -> Example:
    """The same. Raises BadInput (TL202) with the nearest name."""
    if (shipped := find_example(word)) is None:
        raise BadInput(f"there is no example {word!r}; {nearest(word, _shipped())}", code="TL202")
    return shipped


def example_data(word: str) -> dict[str, Any]:
    """The data of an example, not checked yet. Raises as `example` does."""
    shipped = example(word)
    return {"name": shipped.name} | toml_of(shipped.text)


@lru_cache(maxsize=1)
def _shipped() -> dict[str, Example]:
    folder = Path(__file__).parents[2] / "examples"
    texts = {
        entry.name.removesuffix(".toml"): entry.read_text(encoding="utf-8")
        for entry in folder.iterdir()
        if entry.name.endswith(".toml")
    }
    return {name: Example(name, _group(name, toml_of(text)), text) for name, text in sorted(texts.items())}


def _group(name: str, data: dict[str, Any]) -> str:
    if name.startswith("demo-"):
        return "demo"
    if "arrival" in data["workload"]:
        return "serving"
    return str(data["workload"]["kind"])
