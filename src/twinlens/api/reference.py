"""The verbs that look things up: this machine, what is available on it, and what a word means."""

from __future__ import annotations

import builtins
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from twinlens.api.documented import Page
from twinlens.api.question import Verb, asks, schema_of
from twinlens.api.questions import EXPLAIN, LIST, PROBE, VERBS, List
from twinlens.api.questions import Probe as Asked
from twinlens.errors import BadInput, nearest

if TYPE_CHECKING:
    from twinlens.api.words import ListWords, ProbeWords
    from twinlens.measurement.machine.probe import Probe


@asks(PROBE)
def probe(device: str = "auto", **words: Unpack[ProbeWords]) -> Probe:
    """Facts of this machine and its measured ceilings; with `collectives`, exchanges between `ranks` processes too.

    Raises BadInput for a device that is not here, ExecutorFailed (TL307) where a rank is lost.
    """
    from twinlens.measurement.machine import probe as machine

    asked = Asked.read(PROBE.name, {"device": device, **words})
    return machine.probe(asked.device, collectives=asked.collectives, ranks=asked.ranks)


@asks(LIST)
def list(
    kind: str = "kinds", name: str | None = None, *, catalogue: str | Path | None = None, **words: Unpack[ListWords]
) -> builtins.list[dict[str, Any]]:
    """The rows of `twinlens list KIND`: models, devices, links, prices, precisions, executors, settings, metrics,
    examples, runs.

    With a name, every field of one device or model, every setting of an executor, or the JSON schema of the question
    of a verb: `list("schema", "plan fit")`. Raises BadInput (TL204) with the nearest kind or name.
    """
    from twinlens.reporting.available import rows_of
    from twinlens.system.home_folder import catalogue_folder

    asked = List.read(LIST.name, {"kind": kind, "name": name, **words})
    if asked.kind == "schema" and asked.name is not None:
        return [schema_of(_verb_of(asked.name))]
    return rows_of(asked.kind, asked.out, asked.name, catalogue_folder(catalogue))


def _verb_of(name: str) -> Verb:
    """A verb by its name. Raises BadInput (TL204) with the nearest."""
    from twinlens.api.plan.verbs import functions

    verbs: dict[str, Verb] = {verb.name: verb for verb in (*VERBS, *(function.verb for function in functions()))}
    if name not in verbs:
        raise BadInput(f"there is no verb {name[:40]!r}; {nearest(name, verbs)}", code="TL204")
    return verbs[name]


@asks(EXPLAIN)
def explain(word: str | None = None) -> str:
    """The page of a metric, label, finding, error or term, of a law, of a field of a spec or of an option of an
    executor, as Markdown; without a word the list of all pages.

    Raises BadInput (TL212) with the nearest word.
    """
    from twinlens.pages import find, index, refusal
    from twinlens.reporting.reference.law_page import law_page, law_part
    from twinlens.reporting.reference.page import field_page, field_paths, field_words
    from twinlens.theory.law import LAWS

    if word is None:
        also = "every field of a spec and every option of an executor: `twinlens list fields`; every law of theory:"
        return Page(f"{index()}\nAlso {also} `twinlens list laws`.\n")
    try:
        text = find(word).text
    except BadInput:
        if (own := law_page(word) or field_page(word)) is not None:
            return Page(own)
        raise refusal(word, (*field_words(), *LAWS)) from None
    if (law := LAWS.get(word.strip().casefold())) is not None:
        text = f"{text}\n## As a law\n\n{law_part(law)}"
    paths = [f"`twinlens explain {path}`" for path in field_paths(word) if path.casefold() != word.strip().casefold()]
    return Page(f"{text}\nAs a field of a spec: {', '.join(paths)}\n" if paths else text)
