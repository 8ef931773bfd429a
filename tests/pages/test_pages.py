"""Every printed number, verdict and error has a page, and the pages agree with the code."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from importlib import resources
from pathlib import Path
from typing import get_args, get_type_hints

import pytest

import twinlens
from each import each
from twinlens import errors, units
from twinlens.diagnosis.diagnosis import RULES
from twinlens.diagnosis.evidence import Rule
from twinlens.errors import BadInput
from twinlens.pages import KINDS, Page, codes, find, first_paragraph, names
from twinlens.record.beside import SearchOutcome
from twinlens.record.estimate import Origin
from twinlens.record.executor.record import Completeness, Support
from twinlens.record.run import State
from twinlens.reporting.gate import Word
from twinlens.reporting.reference.rule_page import SECTIONS, rule_page
from twinlens.reporting.wording.finding import short
from twinlens.simulation.law import Affine
from twinlens.simulation.points.figures import UNITS as SIMULATED
from twinlens.simulation.rules import Rules
from twinlens.spec.precision import PRECISIONS, TENSOR_CLASSES
from twinlens.spec.slo import Standing
from twinlens.stats.estimator.quantile import needed_for_quantile
from twinlens.stats.metrics.definition import METRICS
from twinlens.stats.steady.label import Label
from twinlens.theory.flop import CONVENTIONS

PACKAGE = Path(twinlens.__file__).parent
PAGES: dict[tuple[str, str], Page] = {(kind, name): find(name) for kind in KINDS for name in names(kind)}
LINK = re.compile(r"\]\(([^)]+)\)")
CODE = re.compile(r"\bTL\d{3}\b")


def _raised_codes() -> set[str]:
    return {code for path in PACKAGE.rglob("*.py") for code in CODE.findall(path.read_text(encoding="utf-8"))}


@each(METRICS.values(), lambda metric: metric.id)
def test_every_metric_has_a_page_under_its_id_and_its_label(metric) -> None:
    assert find(metric.id).kind == "metrics"
    # The words that mean something else as well: both lenses have images, "failed" is a state, a cache is a term.
    shared = {"inference_images_per_s", "failed_share", "kv_bytes"}
    assert (find(metric.label).name == find(metric.id).name) == (metric.id not in shared)


@each(METRICS.values(), lambda metric: metric.id)
def test_a_metric_page_names_the_unit_that_tables_show(metric) -> None:
    line = next(line for line in find(metric.id).text.splitlines() if line.startswith("Unit: "))
    _, shown = units.scale(metric.unit, 1.0)
    assert (shown or "none") in re.split(r"[ ,()]+", line)


@each(names("metrics"))
def test_a_metric_page_says_what_how_and_how_sure(name: str) -> None:
    text = PAGES["metrics", name].text
    heads = [line.removeprefix("## ") for line in text.splitlines() if line.startswith("## ")]
    assert heads == ["Definition", "How it is measured here", "Interval and n", "Traps"]
    assert "See also: " in text


def test_no_metric_page_is_left_over_from_a_metric_that_is_gone() -> None:
    assert set(names("metrics")) == {find(id).name for id in METRICS}


def test_every_error_code_in_the_source_has_a_page_and_every_page_a_code() -> None:
    assert _raised_codes() == set(names("errors"))


@each(names("errors"))
def test_an_error_page_says_the_exit_code_and_what_to_do(code: str) -> None:
    text = PAGES["errors", code].text
    exits = re.search(r"Exit\s+code\s+(\d+)\.", text)
    assert exits is not None
    kinds = {"TL100": errors.GateFailed, "TL130": errors.Interrupted}
    kind = kinds.get(code, errors.BadInput if code.startswith("TL2") else errors.ExecutorFailed)
    assert int(exits[1]) == kind.exit_code
    assert "## What to do" in text


@pytest.mark.parametrize("label", [*get_args(Label), "inconsistent", "unfinished", "not measured"])
def test_every_verdict_on_a_run_has_a_page(label: str) -> None:
    assert find(label).kind == (
        "findings" if label == "disturbed" else "labels"
    )  # one page for the label and the finding


RULE_OF = {rule.code: rule for rule in RULES}
FINDING = re.compile(r'Finding\(\s*"([a-z0-9-]+)"')


def test_every_finding_in_the_source_has_a_sentence_and_a_page_and_no_page_is_left_over() -> None:
    made = {code for path in PACKAGE.rglob("*.py") for code in FINDING.findall(path.read_text(encoding="utf-8"))}
    assert made <= set(codes())
    assert set(names("findings")) <= set(codes())


@each(codes())
def test_every_code_is_explained(code: str) -> None:
    assert find(code).kind in ("findings", "labels", "terms")


@each(names("findings"))
def test_a_finding_is_explained_by_its_code_and_by_the_words_that_tables_show(code: str) -> None:
    assert find(code).kind == "findings"
    assert find(short(code)).name == code
    heads = [line.removeprefix("## ") for line in find(code).text.splitlines() if line.startswith("## ")]
    of_rule = [*(head for head, _ in SECTIONS), "Sources"]
    assert heads == (of_rule if code in RULE_OF else ["Definition", "What follows", "What to do"])


@each(RULES, lambda rule: rule.code)
def test_the_page_of_a_rule_is_what_its_file_says_today(rule: Rule) -> None:
    assert find(rule.code).text == rule_page(rule), "run `make reference`"
    assert first_paragraph(find(rule.code)) == rule.says


@each(RULES, lambda rule: rule.code)
def test_a_rule_says_all_that_its_page_needs_in_whole_sentences(rule: Rule) -> None:
    for field in ("says", *(field for _, field in SECTIONS)):
        text = getattr(rule, field)
        assert len(text.split()) >= 5, field
        assert text == text.strip()
        assert text.endswith("."), field
    assert rule.sources
    assert rule.see
    assert all(len(source.split()) >= 3 for source in rule.sources)
    assert rule.find.__module__.startswith("twinlens.diagnosis.rule.")


def test_every_file_of_a_rule_is_a_rule_that_is_asked() -> None:
    files = {path.stem for path in (PACKAGE / "diagnosis" / "rule").glob("*.py")} - {"__init__", "rule"}
    assert files == {rule.find.__module__.rpartition(".")[2] for rule in RULES}
    assert len(RULE_OF) == len(RULES)


STATES = [state for state in get_args(State) if state != "finished"]  # a finished run is what the verdicts are about


@pytest.mark.parametrize("word", [*STATES, *get_args(Word)])
def test_every_state_and_every_word_of_the_gate_has_a_page(word: str) -> None:
    assert find(word).kind == "labels"


@each([*PRECISIONS, *get_args(Support)[:3], *get_args(Origin), *CONVENTIONS])
def test_every_precision_support_origin_and_convention_has_a_page(word: str) -> None:
    assert find(word).kind == "terms"


@pytest.mark.parametrize("word", [*get_args(SearchOutcome), *get_args(Standing)])
def test_every_outcome_of_a_search_and_every_verdict_on_its_runs_is_explained(word: str) -> None:
    assert f"| {word}" in find("search").text or f", {word}" in find("search").text


def test_every_verdict_on_a_record_has_a_page() -> None:
    verdicts = get_args(get_type_hints(Completeness)["verdict"])
    assert len(verdicts) == 3
    assert {find(verdict).name for verdict in verdicts} == {"completeness"}


def test_the_page_on_precision_names_every_regime_and_class() -> None:
    text = find("precision").text
    assert all(f"]({name}.md)" in text for name in PRECISIONS)
    assert all(f"{name.split('-')[0]}" in text.lower() for group in TENSOR_CLASSES.values() for name in group)


@each(PAGES.values(), lambda page: f"{page.kind}-{page.name}")
def test_every_link_of_a_page_leads_to_a_page(page: Page) -> None:
    here = PACKAGE / "pages" / page.kind
    for target in LINK.findall(page.text):
        assert (here / target).resolve().is_file(), target


@each(PAGES.values(), lambda page: f"{page.kind}-{page.name}")
def test_every_source_file_that_a_page_names_exists(page: Page) -> None:
    for name in re.findall(r"`([a-z_]+/[a-z_/]+\.(?:py|toml))`", page.text):
        assert (PACKAGE / name).is_file(), name


@each(PAGES.values(), lambda page: f"{page.kind}-{page.name}")
def test_a_page_is_short_and_opens_with_one_plain_paragraph(page: Page) -> None:
    assert len(page.text.splitlines()) <= 60
    first = first_paragraph(page)
    assert first.endswith(".")
    assert "](" not in first
    assert "\n" not in first


def test_no_two_pages_have_one_name_and_no_word_belongs_to_two() -> None:
    assert len({name for _, name in PAGES}) == len(PAGES)
    words = Counter(word.casefold() for page in PAGES.values() for word in page.also)
    assert [word for word, count in words.items() if count > 1] == []


@pytest.mark.parametrize(
    ("word", "name"),
    [
        ("mfu", "mfu"),
        ("MFU", "mfu"),
        ("step_s_p99", "step_s"),
        ("No Steady State", "no-steady-state"),
        ("tl203", "TL203"),
        ("  ridge   point ", "ridge-point"),
        ("int8-weight", "int8-weight"),
        ("Time to first token (TTFT)", "ttft_s"),
    ],
)
def test_a_page_is_found_by_id_by_word_and_by_title(word: str, name: str) -> None:
    assert find(word).name == name


@pytest.mark.parametrize(("word", "near"), [("mfuu", "'mfu'"), ("slowdwn", "'slowdown'"), ("rooflin", "'roofline'")])
def test_an_unknown_word_is_refused_with_the_nearest_one(word: str, near: str) -> None:
    with pytest.raises(BadInput, match=near) as caught:
        find(word)
    assert caught.value.code == "TL212"
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("word", "name"),
    [
        ("ranked", "valid"),
        ("not ranked", "not-valid"),
        ("provisional", "provisional"),
        ("p99", "quantile"),
        ("percentile", "quantile"),
        ("cut_off", "failed_share"),
        ("in_flight", "mean_in_flight"),
        ("known language", "entropy-rate"),
        ("moving-block bootstrap", "interval"),
        ("MOVER-R", "interval"),
    ],
)
def test_words_that_tables_and_footnotes_print_have_a_page(word: str, name: str) -> None:
    assert find(word).name == name


def test_the_page_on_quantiles_gives_the_numbers_that_the_code_asks_for() -> None:
    text = find("quantile").text
    for q, name in ((0.5, "p50"), (0.9, "p90"), (0.95, "p95"), (0.99, "p99"), (0.999, "p99.9")):
        assert f"| {name} | {needed_for_quantile(q):,} |" in text


def test_a_word_that_is_near_nothing_leads_to_the_list_of_pages() -> None:
    with pytest.raises(BadInput, match=r"names all pages$"):
        find("zzzzzzzz")


@pytest.mark.parametrize("word", ["", "../errors/TL200", "\x1b[2J" * 100])
def test_a_word_is_never_a_path_and_may_be_rubbish(word: str) -> None:
    with pytest.raises(BadInput):
        find(word)


def test_a_first_paragraph_is_one_line_without_markup() -> None:
    page = Page("terms", "x", "X", "# X\n\nOne `two`\n**three**.\n\nMore.\n")
    assert first_paragraph(page) == "One two three."


def test_pages_are_found_through_the_package_and_not_the_source_tree() -> None:
    entry = resources.files("twinlens.pages") / "metrics" / "mfu.md"
    assert entry.read_text(encoding="utf-8").startswith("---\n")


def test_reading_pages_loads_nothing_heavy() -> None:
    script = (
        "import sys; from twinlens.pages import find; find('mfu');"
        "heavy = {'torch', 'numpy', 'pyarrow', 'pydantic', 'scipy', 'altair', 'rich'} & set(sys.modules);"
        "sys.exit(f'{heavy}' if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@each([*Rules.__slots__, *Affine.__slots__, "before_s", "after_s", *SIMULATED])
def test_every_rule_constant_and_figure_of_a_simulation_has_a_page_that_says_it(name: str) -> None:
    page = find(name)
    assert page.kind == "metrics" or name in page.text
