"""Assertions on the facts of any executor."""

from __future__ import annotations

import json

from twinlens.record.codec import decode, encode
from twinlens.record.executor.facts import Facts


def assert_says_who_it_is(facts: Facts) -> None:
    """It names itself or its device, what it does not know has a reason, and all of it survives run.json."""
    known = facts.executor.facts
    assert {"software.framework.name", "software.runtime.name", "accelerator.product"} & set(known), (
        "it says nothing of itself"
    )
    for field, fact in known.items():
        assert fact.value is not None or fact.reason, f"{field} has neither a value nor a reason"
    assert decode(Facts, json.loads(json.dumps(encode(facts), allow_nan=False))) == facts
