"""The page of a rule of diagnosis, as Markdown: what the rule file says, section by section."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from pathlib import Path

from twinlens.diagnosis.diagnosis import RULES
from twinlens.diagnosis.evidence import Rule
from twinlens.pages import find, head_of

_WIDTH = 140
SECTIONS = (
    ("Why it matters", "why"),
    ("Evidence", "evidence"),
    ("When it lies", "lies"),
    ("What to try", "remedy"),
    ("What would prove it wrong", "falsifier"),
)
"""Heads of a page, and the field of a rule that each prints. Sources follow them."""


def rule_page(rule: Rule) -> str:
    """The page as text. Raises BadInput (TL212) where the rule names a page that is not there."""
    parts = [f"# {_title(rule.code)}", _filled(rule.says)]
    for head, field in SECTIONS:
        parts += [f"## {head}", _filled(getattr(rule, field))]
    module = rule.find.__module__.split(".", 1)[1].replace(".", "/")
    laws = (f"a law of theory, `twinlens explain {law}`" for law in rule.laws)
    sources = [_filled(f"- {source}", "  ") for source in (*rule.sources, *laws, f"`{module}.py`")]
    parts += ["## Sources", "\n".join(sources), _filled(f"See also: {', '.join(map(_link, rule.see))}")]
    return "\n\n".join(parts) + "\n"


def write_rule_pages(folder: Path, rules: Iterable[Rule] = RULES) -> None:
    """A page for each rule, `CODE.md` in `folder`; the head of one that is there, which has its sentence, is kept."""
    for rule in rules:
        path = folder / f"{rule.code}.md"
        head = head_of(path.read_text(encoding="utf-8")) if path.exists() else ""
        path.write_text(head + rule_page(rule), encoding="utf-8")


def _title(code: str) -> str:
    return code.replace("-", " ").capitalize()


def _link(name: str) -> str:
    if name in {rule.code for rule in RULES}:
        return f"[{_title(name)}]({name}.md)"
    page = find(name)
    where = "" if page.kind == "findings" else f"../{page.kind}/"
    return f"[{page.title}]({where}{page.name}.md)"


def _filled(text: str, indent: str = "") -> str:
    return textwrap.fill(text, _WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
