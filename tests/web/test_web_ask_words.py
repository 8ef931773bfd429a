"""Claims and words in a browser: each figure judged beside its text, and our own pages as pages."""

from __future__ import annotations

import http.client
import json
import re
from urllib.parse import quote, urlencode, urlsplit

import pytest
from test_web_door import asked

import twinlens as tl
from twinlens.api.judging.claims_of_page import claims_of_page, sentences_of
from twinlens.errors import BadInput
from twinlens.pages import KINDS, find, names
from twinlens.web.ask.claim import EXAMPLES
from twinlens.web.ask.explain import _address, _html
from twinlens.web.ask.quotes import EXAMPLES as EXAMPLES_OF_QUOTES
from twinlens.web.door import FORM

PAGE = (
    "Our box is fast. A 70B model in FP16 needs 140 GB. H100 has 5.0 TB/s of memory bandwidth.\n"
    "Llama 3.1 8B serves 2400 tokens/s on one H100 in FP8"
)


@pytest.fixture(scope="module")
def url(served, tmp_path_factory: pytest.TempPathFactory):  # type: ignore[no-untyped-def]
    with served(tmp_path_factory.mktemp("runs")) as found:
        yield found


def sent(url: str, path: str, **words: str) -> tuple[int, str]:
    """A form sent as a browser does, with the token of a page of this site."""
    token = re.search(r'name="twinlens-form" content="([^"]+)"', asked(url, path)[2])
    assert token is not None
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=60)
    headers = {"Origin": url.rstrip("/"), "Content-Type": "application/x-www-form-urlencoded"}
    connection.request("POST", path, urlencode({FORM: token[1], **words}), headers)
    answer = connection.getresponse()
    return answer.status, answer.read().decode()


def test_a_page_is_split_into_sentences_at_stops_and_at_lines() -> None:
    assert list(sentences_of("One is 1.5 x. Two, e.g. this.\n• Three; Four v1.2 is 3")) == [
        "One is 1.5 x.",
        "Two, e.g. this.",
        "Three;",
        "Four v1.2 is 3",
    ]


def test_each_sentence_with_a_figure_is_judged_as_if_it_stood_alone() -> None:
    found = claims_of_page(PAGE)
    assert found.others == 1
    assert [each.result.ruling for each in found.sentences if each.result] == ["holds", "wrong", "incomplete"]
    for each in found.sentences:
        assert each.result is not None
        assert each.result.ruling == tl.claim(each.text).ruling


def test_a_page_without_a_figure_is_no_page_of_claims() -> None:
    with pytest.raises(BadInput, match="no figure"):
        claims_of_page("It is fast. It is cheap.")


@pytest.mark.parametrize("text", EXAMPLES)
def test_every_example_of_a_claim_can_be_read(text: str) -> None:
    assert tl.claim(text).judged.of("claim-computed")


def test_a_sentence_in_the_address_is_judged_with_its_inverse(url: str) -> None:
    query = urlencode({"says": EXAMPLES[2]})
    status, _, body = asked(url, f"/claim?{query}")
    assert status == 200
    assert "Right for" in body
    assert f"twinlens claim &#39;{EXAMPLES[2]}&#39;" in body
    assert json.loads(asked(url, f"/claim?{query}&as=json")[2])["verdict"] == tl.claim(EXAMPLES[2]).ruling


def test_a_page_of_text_is_sent_and_judged_beside_each_sentence(url: str) -> None:
    status, body = sent(url, "/claim", page=PAGE)
    assert status == 200
    assert "3 claims: 1 holds, 1 incomplete, 1 wrong" in body
    assert "H100 has 5.0 TB/s of memory bandwidth." in body
    assert "Our box is fast." in body.partition("<textarea")[2].partition("</textarea>")[0]


def test_a_page_without_figures_says_so_and_keeps_the_text(url: str) -> None:
    status, body = sent(url, "/claim", page="<script>alert(1)</script>")
    assert status == 400 or "no claim" in body
    assert "<script>alert" not in body
    assert "&lt;script&gt;alert(1)" in body


def test_every_page_of_ours_is_a_page_here_and_its_links_lead_on(url: str) -> None:
    known = {name for kind in KINDS for name in names(kind)}
    listed = asked(url, "/explain")[2]
    assert all(f'href="/explain/{quote(name)}"' in listed for name in known)
    for name in ("ttft", "TL270"):
        status, _, body = asked(url, f"/explain/{name}")
        assert status == 200
        assert f"twinlens explain {name}" in body
    assert _address("../metrics/ttft.md#how") == "/explain/ttft#how"
    assert _address("https://example.org/a.md") == "https://example.org/a.md"


def test_markup_in_a_page_stays_text() -> None:
    made = _html("a <b>bold</b> [x](javascript:alert(1)) and `code`\n\n| a | b |\n|---|--:|\n| 1 | 2 |\n")
    assert "&lt;b&gt;" in made
    assert 'href="javascript' not in made
    assert "<table>" in made


def test_a_search_finds_names_before_texts(url: str) -> None:
    body = asked(url, "/explain?find=ttft&as=json")[2]
    first = [each["word"] for each in json.loads(body)]
    by_name = [any("ttft" in each.casefold() for each in (page.name, *page.also)) for page in map(find, first)]
    assert by_name == sorted(by_name, reverse=True)
    assert True in by_name
    assert False in by_name


def test_a_word_without_a_page_is_told_its_nearest(url: str) -> None:
    status, _, body = asked(url, "/explain/tttft")
    assert status == 400
    assert "there is no page for" in body.lower()


def test_two_pasted_quotes_are_held_against_each_other(url: str) -> None:
    status, _, body = asked(url, "/plan/quotes")
    assert status == 200
    assert "hours of H100" in body
    status, answered = sent(url, "/plan/quotes", one=EXAMPLES_OF_QUOTES[0], other=EXAMPLES_OF_QUOTES[1], input="2048")
    assert status == 200
    assert 'class="lead' in answered
    one, other = (each.replace("an API", "<b>mine</b>") for each in EXAMPLES_OF_QUOTES)
    assert "<b>mine</b>" not in sent(url, "/plan/quotes", one=one, other=other)[1]


@pytest.mark.parametrize(
    "text", ["", "name = ", "name = 'a'", "per_device_hour = 1\nname='x'\nnothing = 1", "x" * 59_000]
)
def test_a_quote_that_is_none_is_one_sentence_with_its_side(url: str, text: str) -> None:
    status, answered = sent(url, "/plan/quotes", one=EXAMPLES_OF_QUOTES[0], other=text)
    assert status == 400
    assert "quote b" in answered.partition('role="alert"')[2].partition("</div>")[0].lower()
