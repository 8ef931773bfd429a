"""Metadata of a KServe server is held against what can be sent: shapes, datatypes and names may be anything."""

from __future__ import annotations

from typing import Any

import pytest

from twinlens.errors import BadInput
from twinlens.executors.kserve.entry import kserve_target
from twinlens.network.dialect.kserve import tensors_of

URL = "http://127.0.0.1:8000"


def read(input: dict[str, Any], **options: Any) -> Any:
    entry = {"name": "x", "datatype": "FP32", "shape": [-1, 3, 8, 8]} | input
    return tensors_of(kserve_target({"url": URL} | options, "m"), {}, {"inputs": [entry], "outputs": []})


def test_a_shape_and_a_datatype_are_taken_as_they_are() -> None:
    assert (read({}).shape, read({}).datatype) == ((3, 8, 8), "FP32")
    assert read({"shape": [-1, -1]}, shape=[3, 4, 4]).shape == (3, 4, 4)


@pytest.mark.parametrize("shape", [[-1, 10**9], [-1, 10**6, 10**6, 10**6], [-1, 2**22 + 1], [-1, 10**400]])
def test_a_shape_of_the_server_sizes_no_array_beyond_what_can_be_sent(shape: list[int]) -> None:
    with pytest.raises(BadInput, match="at most 4,194,304 in all can be sent"):
        read({"shape": shape})


@pytest.mark.parametrize(
    "shape", [[-1, "3", 8, 8], [-1, 3.0, 8], [-1, None], "3, 8, 8", {"a": 1}, [-1, True, 3], [[1]]]
)
def test_a_shape_that_is_none_is_asked_for(shape: Any) -> None:
    with pytest.raises(BadInput, match="leaves the shape of an image open"):
        read({"shape": shape})


@pytest.mark.parametrize("datatype", [["FP32"], {"FP32": 1}, None, 32, "FP32 ", "BYTES"])
def test_a_datatype_that_is_none_is_one_sentence(datatype: Any) -> None:
    with pytest.raises(BadInput, match="images are sent as FP32"):
        read({"datatype": datatype})


@pytest.mark.parametrize("name", ["模型", "modèle", "a b", "a\nb", "a/b"])
def test_a_name_that_cannot_stand_in_a_path_is_one_sentence(name: str) -> None:
    for model, options in ((name, {}), ("m", {"model": name}), ("m", {"version": name})):
        with pytest.raises(BadInput, match="cannot stand in the path of a request"):
            kserve_target({"url": URL} | options, model)
