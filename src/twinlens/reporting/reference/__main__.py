"""`python -m twinlens.reporting.reference` writes docs/reference.md, docs/spec.schema.json and the pages of rules."""

from __future__ import annotations

import json
from pathlib import Path

import twinlens.pages
from twinlens.reporting.reference.document import reference
from twinlens.reporting.reference.rule_page import write_rule_pages
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
    write_rule_pages(Path(twinlens.pages.__file__).parent / "findings")
