"""The reference document and the JSON schema: generated, up to date, and true of every shipped example."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import jsonschema  # comes with altair
import pytest

from twinlens.errors import BadInput
from twinlens.reporting.reference.__main__ import schema_text, write
from twinlens.reporting.reference.document import reference
from twinlens.reporting.reference.option import option_rows
from twinlens.reporting.reference.schema import spec_schema
from twinlens.spec.field import spec_fields
from twinlens.spec.load import parse
from twinlens.spec.source.example import examples

DOCS = Path(__file__).parents[2] / "docs"
CHECK = jsonschema.Draft202012Validator(spec_schema())
BASE = {"workload": {"kind": "inference", "model": "demo-34m"}}


def test_the_files_in_docs_are_what_the_program_makes_today(tmp_path: Path) -> None:
    write(tmp_path)
    for name in ("reference.md", "spec.schema.json"):
        assert (DOCS / name).read_text(encoding="utf-8") == (tmp_path / name).read_text(encoding="utf-8"), (
            "run `make reference`"
        )


def test_every_field_and_option_stands_in_the_reference() -> None:
    text = reference()
    assert all(f"| `{row.path}` |" in text and row.description in text for row in spec_fields())
    assert all(f"| `{row.name}` |" in text and row.description in text for row in option_rows())


def test_the_schema_is_one() -> None:
    jsonschema.Draft202012Validator.check_schema(json.loads(schema_text()))


@pytest.mark.parametrize("example", examples(), ids=lambda example: example.name)
def test_every_shipped_example_is_valid_by_the_schema(example) -> None:
    assert [error.message for error in CHECK.iter_errors(tomllib.loads(example.text))] == []


SAID_IN_SHORT = [
    {"workload": BASE["workload"] | {"slo": "mlperf-llama3.1-8b"}},
    {"workload": BASE["workload"] | {"output_tokens": "free"}},
    {"workload": BASE["workload"] | {"input_tokens": {"kind": "empirical", "path": "seen.csv", "column": "in"}}},
    BASE | {"sweep": {"precision": ["fp32", "bf16"], "protocol.steady_s": [1, 2]}},
    BASE | {"executor": {"kind": "of-a-stranger", "options": {"own": 1}}},
]


@pytest.mark.parametrize("data", SAID_IN_SHORT, ids=str)
def test_what_a_file_may_say_in_short_is_valid(data: dict) -> None:
    assert [error.message for error in CHECK.iter_errors(data)] == []


WRONG = [
    {},
    BASE | {"protocol": {"duration": 60}},
    BASE | {"protocol": {"duration_s": 0}},
    BASE | {"protocol": {"repeats": "three"}},
    BASE | {"point": {"precision": "fp33"}},
    BASE | {"sweep": {"precision": []}},
    {"workload": BASE["workload"] | {"arrival": {"kind": "gamma"}}},
    {"workload": BASE["workload"] | {"arrival": {"kind": "poisson", "cv": 2.0}}},
    {"workload": BASE["workload"] | {"slo": "mlperf"}},
    {"workload": BASE["workload"] | {"global_batch": 4}},
]


@pytest.mark.parametrize("data", WRONG, ids=str)
def test_what_the_schema_refuses_the_program_refuses_too(data: dict) -> None:
    assert list(CHECK.iter_errors(data))
    with pytest.raises(BadInput):
        parse(json.loads(json.dumps(data)))


def test_editors_show_a_sentence_for_every_field() -> None:
    schema = spec_schema()
    parts = [schema, *schema["$defs"].values()]
    bare = [
        name for part in parts for name, field in part.get("properties", {}).items() if not field.get("description")
    ]
    assert set(bare) <= {"kind"}
    options = schema["$defs"]["ExecutorSpec"]["properties"]["options"]["properties"]
    assert "openai-http" in options["body"]["description"]
    assert ["kserve-http" in kind["description"] for kind in options["url"]["anyOf"]].count(True) == 1
