"""Plans asked from an address: forms from their questions, the same words elsewhere, and no file of the server."""

from __future__ import annotations

import json
import shlex
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from test_web_door import asked

from twinlens import plan
from twinlens.api.plan.verbs import functions
from twinlens.api.question import plain_type
from twinlens.errors import BadInput
from twinlens.pages.verbs import verbs
from twinlens.reporting.document.html import fragment
from twinlens.web.ask.form import form_of
from twinlens.web.ask.plan import QUESTIONS
from twinlens.web.ask.words import RUN, command_of, example_of, names_file, options_of, python_of, row_of, words_of

VERBS = {function.verb.name: function.verb for function in functions() if function.__name__ in QUESTIONS}


@pytest.fixture(scope="module")
def url(served, tmp_path_factory: pytest.TempPathFactory):  # type: ignore[no-untyped-def]
    with served(tmp_path_factory.mktemp("runs")) as found:
        yield found


class _Inputs(HTMLParser):
    """Names of the inputs of a page, and whether each has a label."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.names: dict[str, str] = {}
        self.labels: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        told = dict(attrs)
        if tag in ("input", "select", "textarea") and told.get("name"):
            self.names[told["name"]] = told.get("id", "")
        if tag == "label" and told.get("for"):
            self.labels.add(told["for"])


@pytest.mark.parametrize("name", VERBS)
def test_every_option_is_in_the_form_or_names_a_file_or_tells_how(name: str) -> None:
    """Of a verb with two lenses each form has its own; together they have all."""
    verb, row = VERBS[name], row_of(name)
    lenses = [dict.fromkeys(each.model_fields, "x") for each in verb.questions]
    shown = {field.name for words in lenses for group in form_of(row, verb, words) for field in group.fields}
    left = {each["field"].replace("_", "-") for each in options_of(row) if not names_file(each)}
    assert shown == {each.rstrip("-") for each in left}


@pytest.mark.parametrize("name", VERBS)
def test_an_option_that_is_a_path_is_no_input_and_is_refused(name: str) -> None:
    """By its type in the question, not by its name: a new option of a file cannot slip in."""
    for field, (question, option) in VERBS[name].fields().items():
        told = str(plain_type(question, field))
        if "Path" not in told or option.kind.metavar == RUN:
            continue
        with pytest.raises(BadInput, match="names a file of this machine") as refused:
            words_of(name, [(field, "/etc/passwd")])
        assert refused.value.code == "TL270"


@pytest.mark.parametrize(
    "word", ["/etc/passwd", "~/model", "..", "a/b", "model.gguf", "8B,../x:4:4K", "C:\\model", "x.json", "tests"]
)
def test_a_name_of_a_model_that_could_be_a_file_is_refused(word: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(__file__).parents[2])
    with pytest.raises(BadInput, match="no file"):
        words_of("plan fit", [("model", word)])


def test_words_become_the_command_and_the_python_that_ask_the_same() -> None:
    words = words_of("plan method", [("model", "8B"), ("corpus", "20M"), ("style", "yes"), ("budget", "")])
    assert words == {"model": "8B", "corpus": "20M", "style": True}
    assert shlex.join(command_of("plan method", words)) == "twinlens plan method --model 8B --corpus 20M --style"
    assert python_of("plan fit", {"model": "70B", "users": "16"}) == (
        "import twinlens as tl\n\ntl.plan.fit(model='70B', users=16)"
    )


def test_an_option_is_known_by_each_of_its_names() -> None:
    for name in ("input-tokens", "prompt", "input_tokens"):
        assert words_of("plan cost", [(name, "100")]) == {"input_tokens": "100"}


@pytest.mark.parametrize("name", [each for each in VERBS if each != "plan calibrate"])
def test_a_page_without_words_answers_the_example_of_its_verb(url: str, name: str) -> None:
    status, _, body = asked(url, f"/plan/{name.partition(' ')[2]}")
    assert status == 200
    assert "An example is filled in" in body
    assert 'id="document"' in body
    assert 'id="told" class="told" role="status"></p>' not in body
    command = shlex.join(command_of(name, example_of(name)))
    assert command.replace("'", "&#39;") in body
    inputs = _Inputs(body)
    assert {id for id in inputs.names.values() if id} <= inputs.labels


def test_a_page_that_needs_runs_of_the_user_says_nothing_wrong_before_it_is_asked(url: str) -> None:
    status, _, body = asked(url, "/plan/calibrate")
    assert status == 200
    assert "An example is filled in" not in body
    assert 'role="alert"></div>' in body
    assert asked(url, "/plan/calibrate?device=H100")[0] == 400, "asked, and what it needs is not there"


def test_wrong_words_give_the_sentence_of_the_command_line_and_lose_nothing(url: str) -> None:
    query = urlencode({"model": "70B", "users": "many", "context": "32K"})
    status, _, body = asked(url, f"/plan/fit?{query}")
    assert status == 400
    with pytest.raises(BadInput) as refused:
        plan.fit("70B", users="many", context="32K")
    assert str(refused.value).replace("'", "&#39;") in body
    assert 'value="many"' in body
    assert 'value="32K"' in body


def test_a_misspelt_option_is_told_its_nearest(url: str) -> None:
    status, _, body = asked(url, "/plan/fit?modle=8B&as=json")
    assert (status, json.loads(body)["code"]) == (400, "TL231")
    assert "did you mean '--model'" in json.loads(body)["error"]


def test_a_form_that_moves_asks_for_the_answer_alone(url: str) -> None:
    status, _, body = asked(url, "/plan/fit?model=8B&device=H200&users=4&context=8K&as=part&charts=no")
    part = json.loads(body)
    assert status == 200
    assert "Yes, it fits" in part["document"]
    assert "twinlens plan fit --model 8B --device H200 --users 4 --context 8K" in part["elsewhere"]
    assert "charts=no" not in part["elsewhere"]
    assert part["wrong"] == ""


def test_charts_can_be_left_out_while_a_form_moves(url: str) -> None:
    question = "/plan/roi?device=H100&energy=0.1+USD/kWh&as=part"
    assert "data-chart" in json.loads(asked(url, question)[2])["document"]
    assert "data-chart" not in json.loads(asked(url, f"{question}&charts=no")[2])["document"]


def test_the_same_answer_is_json_and_one_file(url: str) -> None:
    question = "/plan/fit?model=8B&device=H200"
    assert json.loads(asked(url, f"{question}&as=json")[2])["schema"] == 1
    status, _, body = asked(url, f"{question}&as=html")
    assert (status, body[:15]) == (200, "<!doctype html>")
    assert _Inputs(body).names == {}


def test_what_is_typed_is_never_markup(url: str) -> None:
    hostile = '"><script>alert(1)</script>'
    for words in ({"model": hostile}, {hostile: "1"}, {"model": "8B", "kv": hostile}):
        _, _, body = asked(url, f"/plan/fit?{urlencode(words)}")
        assert "<script>alert" not in body


def test_the_overview_leads_to_every_verb(url: str) -> None:
    _, _, body = asked(url, "/plan")
    assert all(f'href="/plan/{name}"' in body for name in QUESTIONS)
    assert {*QUESTIONS, "quotes"} == {name.partition(" ")[2] for name in verbs() if name.startswith("plan ")}


def test_a_run_that_is_not_there_is_said_with_its_id(url: str) -> None:
    status, _, body = asked(url, "/plan/checkpoint?run=nowhere")
    assert status == 400
    assert "there is no run &#39;nowhere&#39;" in body.lower()


def test_a_page_does_not_say_its_subject_twice() -> None:
    found = plan.choose("70B", users=16, context="8K").document()
    assert found.subject
    assert found.subject not in unescape(fragment(found))
