"""Verbs as they are made of their questions: typed, with a schema, and a new one by a question and a function alone."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.resources import files
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from click.testing import CliRunner

import twinlens as tl
from twinlens.cli import commands, table
from twinlens.cli.commands import Verbs
from twinlens.errors import BadInput
from twinlens.pages import verbs as pages

DOCUMENT = Path(__file__).parents[1] / "docs" / "new-plan-verb.md"


def test_the_types_of_keywords_are_what_the_questions_say() -> None:
    assert files("twinlens.api").joinpath("words.pyi").read_text(encoding="utf-8") == table.words(), "make reference"


def test_every_type_that_a_function_returns_is_a_name_of_the_package() -> None:
    functions = [getattr(tl, name) for name in tl.__all__] + [getattr(tl.plan, name) for name in tl.plan.__all__]
    for function in functions:
        if not callable(function) or isinstance(function, type | ModuleType):
            continue
        returned = getattr(function, "__wrapped__", function).__annotations__["return"]
        for name in re.findall(r"[A-Z]\w+", returned):
            assert name in tl.__all__ or name in ("Any", "None", "Path", "DataFrame"), f"{function.__name__}: {name}"


@pytest.mark.parametrize("name", [*pages.verbs()])
def test_every_verb_has_a_schema_of_its_keywords(name: str) -> None:
    if name in ("plan", "browse", "gateway"):
        return
    schema = tl_list("schema", name)[0]
    lenses = schema.get("anyOf", [schema])
    taken = {field for lens in lenses for field in lens["properties"]}
    module = import_module("twinlens.api.plan.verbs") if name.startswith("plan ") else tl
    function = getattr(module, name.split()[-1])
    assert {each.name for each in function.words} <= taken
    assert all(row["description"] for lens in lenses for row in lens["properties"].values())


def tl_list(kind: str, name: str) -> list[dict[str, Any]]:
    from twinlens.api.reference import list as listed

    return listed(kind, name)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: tl.show("runs", wohle=True), "show has no option --wohle; did you mean '--whole'?"),
        (lambda: tl.measure("chat", freh=True), "measure has no option --freh; did you mean '--fresh'?"),
        (lambda: tl.compare("a", "b", metrc="x"), "compare has no option --metrc; did you mean '--metric'?"),
        (lambda: tl.ledger("a", price_per_hor=1.0), "compare has no option --price-per-hor; did you mean '--price-per"),
        (lambda: tl.claim("70B", bacth=1), "claim has no option --bacth; did you mean '--batch'?"),
        (lambda: tl.evidence("a", to="p.zip", nmae="x"), "evidence has no option --nmae; did you mean '--name'?"),
        (lambda: tl.report((), to="a.html", titel="x"), "report has no option --titel; did you mean '--title'?"),
        (lambda: tl.explain(wrd="x"), "explain has no option --wrd; did you mean '--word'?"),
    ],
)
def test_a_misspelt_keyword_is_refused_as_on_the_command_line(call: Any, sentence: str) -> None:
    with pytest.raises(BadInput) as refused:
        call()
    assert str(refused.value).startswith(sentence)
    assert (refused.value.code, refused.value.exit_code) == ("TL231", 2)


def test_a_spec_by_its_name_is_the_study_of_the_command_line() -> None:
    by_name = tl.check("chat", at="rate_per_s=1,2", set_="protocol.repeats=1", refuse=False)
    study = tl.load("chat", ["sweep.rate_per_s=[1, 2]", "protocol.repeats=1"])
    assert by_name.to_json() == tl.check(study, refuse=False).to_json()
    with pytest.raises(BadInput, match="--at changes a spec, and this is a study"):
        tl.check(study, at="rate_per_s=1")


@contextmanager
def new_verb(monkeypatch: pytest.MonkeyPatch, folder: Path) -> Iterator[Any]:
    """The verb of docs/new-plan-verb.md, as its code stands there, among the verbs of planning."""
    code = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(encoding="utf-8"), re.DOTALL)[0]
    folder.joinpath("racks.py").write_text(code, encoding="utf-8")
    spec = spec_from_file_location("twinlens.api.plan.racks", folder / "racks.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    monkeypatch.setattr(table, "PLANS", (*table.PLANS, module.racks))
    made = table.table()
    monkeypatch.setattr(pages, "verbs", lambda: made)
    monkeypatch.setattr(commands, "verbs", lambda: made)
    pages.verb_options.cache_clear()
    yield module.racks
    pages.verb_options.cache_clear()


def test_a_new_verb_of_planning_is_a_question_a_function_and_a_document(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with new_verb(monkeypatch, tmp_path) as racks:
        assert racks(devices=72, per_rack=32).racks == 3
        assert repr(racks(devices=72, per_rack=32)).startswith("3 racks")
        with pytest.raises(BadInput, match="plan racks has no option --per-rak; did you mean '--per-rack'"):
            racks(devices=72, per_rak=32)
        app = Verbs("twinlens")
        commands.add_verbs(app)
        shown = CliRunner().invoke(app, ["plan", "racks", "--devices", "72", "--per-rack", "32"])
        assert shown.stdout.startswith("3 racks")
        told = CliRunner().invoke(app, ["plan", "racks", "--devices", "72", "--json"])
        assert '"racks": 9' in told.stdout
        refused = CliRunner().invoke(app, ["plan", "racks", "--devices", "many"])
        assert refused.exit_code == 2
        assert "--devices 'many' is no whole number" in refused.stderr
        assert "Devices that one rack holds." in CliRunner().invoke(app, ["plan", "racks", "-h"]).stdout
        assert "per-rack" in {option.name for option in pages.verb_options()}
