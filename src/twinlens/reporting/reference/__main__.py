"""`python -m twinlens.reporting.reference` writes reference.md and spec.schema.json into docs/."""

from __future__ import annotations

import json
from pathlib import Path

from twinlens.reporting.reference.document import reference
from twinlens.reporting.reference.schema import spec_schema


def write(folder: Path) -> None:
    """Both files, as they are kept in docs/."""
    folder.joinpath("reference.md").write_text(reference(), encoding="utf-8")
    folder.joinpath("spec.schema.json").write_text(schema_text(), encoding="utf-8")


def schema_text() -> str:
    """The schema as the text of its file."""
    return json.dumps(spec_schema(), indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    write(Path("docs"))
