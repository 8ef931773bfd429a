"""What an executor says it can do is what a spec may ask of it, and everything else is one sentence."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import twinlens
from material import fixed, inference, spec_of, training
from twinlens.errors import BadInput
from twinlens.executors.refuse import refuse_unsupported
from twinlens.executors.registry import capabilities, executor, executor_names, launches

URL = {"url": "http://127.0.0.1:1/v1"}
CLOSED = {"arrival": {"kind": "closed"}, "point": {"concurrency": 2}}


@pytest.mark.parametrize(
    ("data", "words", "code"),
    [
        (training("torhc"), "unknown executor 'torhc'.*'torch'", "TL207"),
        (training("vllm"), "unknown executor 'vllm' for training", "TL207"),
        (training("torch", options={"grahp": "eager"}), "no option 'grahp'; did you mean 'graph'", "TL207"),
        (training("torch", options={"graph": "auto"}), 'is "eager" or "compiled", not \'auto\'', "TL207"),
        (inference("vllm", options={"graph": "compiled"}), 'of vllm is "auto" or "eager"', "TL207"),
        (inference("llama-cpp", options={"graph": "eager"}), "no option 'graph'", "TL207"),
        (inference("openai-http", options=URL, executor={"threads": 4}), "threads = 4 has no effect on", "TL218"),
        (training("fake", executor={"device": "cpu"}), "executor.device = 'cpu' has no effect on fake", "TL218"),
        (inference("torch", **CLOSED), "arrivals of kind lockstep, not 'closed'", "TL202"),
        (inference("vllm", "vit-tiny"), "family decoder, and 'vit-tiny' is of the family vit", "TL202"),
    ],
)
def test_what_an_executor_cannot_do_is_refused_in_one_sentence(data: dict[str, Any], words: str, code: str) -> None:
    with pytest.raises(BadInput, match=words) as refused:
        refuse_unsupported(spec_of(data))
    assert refused.value.code == code
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("kind", "options", "why"),
    [
        ("onnxruntime-served", {}, "batches statically on a processor"),
        ("llama-cpp", {}, "answers one request at a time"),
        ("transformers-serve", {"continuous_batching": False}, "with continuous_batching off"),
        ("transformers-serve", {}, ""),
        ("openvino-served", {}, ""),
        ("openai-http", {}, ""),
    ],
)
def test_continuous_admission_is_refused_where_no_request_joins_those_that_run(
    kind: str, options: dict[str, Any], why: str
) -> None:
    arrivals = {"arrival": {"kind": "poisson"}, "input_tokens": fixed(8)}
    for admission, held in (("continuous", {"in_flight": 4}), ("static", {"batch": 4})):
        point = {"rate_per_s": 4.0, "admission": admission, "precision": "fp32"} | held
        spec = spec_of(inference(kind, options=options, point=point, **arrivals))
        if admission == "static" or not why:
            refuse_unsupported(spec)
            continue
        with pytest.raises(
            BadInput, match=f'admission is "continuous", and {kind} .*{why}.*; take "static"'
        ) as refused:
            refuse_unsupported(spec)
        assert refused.value.code == "TL202"


def test_where_work_is_done_is_said_of_every_executor_of_ours() -> None:
    places = {kind: capabilities(kind).runs for kind in executor_names()}
    assert (places["torch"], places["openai-http"], places["replay"]) == ("here", "elsewhere", "recorded")
    assert [kind for kind in places if launches(kind)] == [
        "llama-cpp", "sglang", "tensorrt-llm", "transformers-serve", "vllm",
    ]  # fmt: skip
    assert executor("torch").lenses == ("training", "inference")
    assert executor_names("training") == ("fake", "replay", "torch", "torch-deepspeed", "torch-parallel", "trainer-log")


def test_reading_what_executors_can_do_imports_nothing_that_runs_one() -> None:
    code = (
        "import sys; from twinlens.executors.registry import capabilities, executor_names\n"
        "[capabilities(kind) for kind in executor_names()]\n"
        "heavy = {'torch', 'transformers', 'twinlens.executors.openai.executor', 'twinlens.executors.launch.server'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("kind", ["torch", "openai-http"])
def test_asking_what_one_executor_can_do_imports_no_arrays_and_no_tables(kind: str) -> None:
    code = (
        f"import sys; from twinlens.executors.registry import capabilities; capabilities({kind!r})\n"
        "print(sorted({'numpy', 'pyarrow'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_every_maker_that_is_named_by_its_place_is_there() -> None:
    package = Path(twinlens.__file__).parent
    texts = [path.read_text() for path in (package / "executors").rglob("*.py")]
    heres = [(here[1] if (here := re.search(r'_HERE = "([\w.]+)"', text)) else "", text) for text in texts]
    quoted = [text.replace("{_HERE}", here) for here, text in heres]
    places = {place for text in quoted for place in re.findall(r"\"(twinlens[\w.]+:\w+)\"", text)}
    assert len(places) > 20
    for module, _, name in (place.partition(":") for place in places):
        tree = ast.parse(package.parent.joinpath(*module.split(".")).with_suffix(".py").read_text())
        made = {each.name for each in tree.body if isinstance(each, ast.FunctionDef | ast.ClassDef)}
        kept = {ast.unparse(each.targets[0]) for each in tree.body if isinstance(each, ast.Assign)}
        assert name in made | kept, f"{module}:{name}"
