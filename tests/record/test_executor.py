"""Who ran: facts, identity, and completeness."""

from __future__ import annotations

import hashlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinlens.errors import BadInput
from twinlens.record.codec import decode, encode
from twinlens.record.executor.record import (
    FIELDS,
    ExecutorRecord,
    Fact,
    PrecisionCheck,
    declared,
    observed,
    unknown,
)
from twinlens.record.samples import COLUMNS, Sample
from twinlens.spec.precision import TENSOR_CLASSES, Lens

SCALARS = st.one_of(st.text(max_size=5), st.integers(), st.booleans(), st.floats(allow_nan=False, allow_infinity=False))
FACTS = st.one_of(
    st.builds(observed, SCALARS, st.just("here")),
    st.builds(declared, SCALARS, st.just("spec")),
    st.just(unknown("nobody looked")),
)
RECORDS = st.dictionaries(st.sampled_from(sorted(FIELDS)), FACTS, max_size=12).map(ExecutorRecord)


def whole(lens: Lens) -> dict[str, Fact]:
    needed = {key for key, field in FIELDS.items() if field.role == "M" and field.lens in ("both", lens)}
    named = {"accelerator.product", "software.framework.version", "compiler.name"}
    return {key: declared("said", "test") for key in needed | named}


def test_every_letter_of_the_method_has_a_field() -> None:
    counts = {"A": 6, "B": 5, "C": 5, "D": 9, "E": 6, "F": 4, "G": 3, "H": 4, "I": 4}
    wanted = {f"{letter}{number}" for letter, count in counts.items() for number in range(1, count + 1)}
    assert {field.letter for field in FIELDS.values()} == wanted


@pytest.mark.parametrize("lens", ["training", "inference"])
def test_every_tensor_class_of_a_lens_must_match(lens: Lens) -> None:
    for name in TENSOR_CLASSES[lens]:
        field = FIELDS[f"precision.{name}"]
        assert field.role == "M"
        assert field.lens in ("both", lens)


def test_what_belongs_to_the_moment_is_not_identity() -> None:
    assert not any(field.identity for field in FIELDS.values() if field.role == "C")
    assert not any(
        field.identity for key, field in FIELDS.items() if key.startswith(("tenancy.", "protocol.", "workload."))
    )


def test_a_fact_has_a_value_or_a_reason() -> None:
    with pytest.raises(ValueError, match="value or is unknown"):
        observed(None, "here")
    with pytest.raises(ValueError, match="says why"):
        unknown("")


def test_a_misspelt_field_is_refused_with_the_nearest() -> None:
    with pytest.raises(BadInput, match=r"host\.cpu\.model"):
        ExecutorRecord({"host.cpu.modle": observed("x", "y")})


@given(RECORDS)
def test_a_record_survives_json(record: ExecutorRecord) -> None:
    assert decode(ExecutorRecord, json.loads(json.dumps(encode(record)))) == record


@given(RECORDS)
def test_the_hash_does_not_depend_on_order_or_capture(record: ExecutorRecord) -> None:
    turned = {key: record.facts[key] for key in reversed(list(record.facts))}
    said = {k: f if f.value is None else declared(f.value, "another file") for k, f in turned.items()}
    assert ExecutorRecord(said).hash() == record.hash()


@given(RECORDS, st.sampled_from(sorted(FIELDS)), SCALARS)
def test_only_identity_fields_move_the_hash(record: ExecutorRecord, key: str, value: object) -> None:
    changed = ExecutorRecord({**record.facts, key: observed(value, "here")})
    same = not FIELDS[key].identity or json.dumps(record.value(key)) == json.dumps(value)
    assert (changed.hash() == record.hash()) is same


def test_the_hash_of_a_small_record_is_the_sha256_of_its_canonical_json() -> None:
    record = ExecutorRecord({"compiler.name": observed("none", "x"), "tenancy.load_average": observed(3.0, "x")})
    assert record.hash() == hashlib.sha256(b'{"compiler.name":"none"}').hexdigest()


@pytest.mark.parametrize("lens", ["training", "inference"])
def test_deleting_any_required_field_flips_the_verdict(lens: Lens) -> None:
    facts = whole(lens)
    assert ExecutorRecord(facts).completeness(lens).verdict == "executor-characterised"
    for key in facts:
        found = ExecutorRecord({k: f for k, f in facts.items() if k != key}).completeness(lens)
        assert found.missing == (key,)
        expected = "vendor-number" if key == "software.framework.version" else "partially-characterised"
        assert found.verdict == expected


def test_an_unknown_fact_is_missing_although_it_is_there() -> None:
    facts = {**whole("training"), "power.source": unknown("nobody looked")}
    assert ExecutorRecord(facts).completeness("training").missing == ("power.source",)


def test_a_number_without_a_stack_is_a_vendors() -> None:
    record = ExecutorRecord({"accelerator.product": declared("a fast one", "a slide")})
    assert record.completeness("inference").verdict == "vendor-number"


def test_a_server_may_name_its_runtime_in_place_of_its_framework() -> None:
    facts = {k: f for k, f in whole("inference").items() if k != "software.framework.version"}
    facts["software.runtime.version"] = observed("1.0", "its own answer")
    assert ExecutorRecord(facts).completeness("inference").verdict == "executor-characterised"


@given(RECORDS, RECORDS)
def test_merging_never_loses_what_was_observed(a: ExecutorRecord, b: ExecutorRecord) -> None:
    merged = a.merged(b)
    assert set(merged.facts) == set(a.facts) | set(b.facts)
    strength = {"unknown": 0, "declared": 1, "observed": 2}
    for key, fact in merged.facts.items():
        known = [r.facts[key] for r in (a, b) if key in r.facts]
        assert strength[fact.capture] == max(strength[other.capture] for other in known)
        if key in b.facts and b.facts[key].capture == fact.capture:
            assert fact == b.facts[key]


def test_a_precision_check_survives_json() -> None:
    check = PrecisionCheck("weights", "bf16", "fp32", "differs", "native", "elements held: fp32 100%")
    assert decode(PrecisionCheck, json.loads(json.dumps(encode(check)))) == check


def test_a_sample_has_every_column() -> None:
    sample = Sample(5, "host", cpu_busy=0.5)
    assert list(sample.to_row()) == list(COLUMNS)
