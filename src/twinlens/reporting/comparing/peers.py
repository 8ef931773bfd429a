"""A served run in another tool's own figures, under its names and definitions: never beside ours in one table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from twinlens.errors import BadInput, nearest
from twinlens.record.estimate import Estimate
from twinlens.record.run import Run
from twinlens.reporting import display
from twinlens.reporting.document.block import Block, Document, Line, Table, Title, cells, row
from twinlens.stats.peers.names import TOOLS
from twinlens.stats.serving.latency import unstreamed
from twinlens.stats.summary.serving import is_served, peers

TOOL_NAMES = tuple(name.replace("_", "-") for name in TOOLS)


def tool_of(word: str) -> str:
    """A tool by its name, with either dash. Raises BadInput (TL204) with the nearest one."""
    name = word.strip().lower().replace("-", "_")
    if name not in TOOLS:
        raise BadInput(f"no tool {word[:40]!r} to show a run as; {nearest(word, TOOL_NAMES)}", code="TL204")
    return name


def peer_figures(run: Run, tool: str) -> dict[str, Estimate]:
    """The figures that `tool` ("vllm", "genai-bench" …) would print of this run's rows, by its own names.

    Raises BadInput (TL204) for an unknown tool and for a run that was not served: there is nothing that it would print.
    """
    name = tool_of(tool)
    if not is_served(run):
        asked = "a training run" if run.lens == "training" else "a run in lockstep"
        raise BadInput(f"{run.id} is {asked}: {TOOLS[name]} has figures of served requests only", code="TL204")
    mark = f"{name}."
    return {key.removeprefix(mark): figure for key, figure in peers(run).items() if key.startswith(mark)}


def peers_document(runs: Sequence[Run], tool: str) -> Document:
    """One table a run: the tool's name of each figure, its value, and how that tool counts it."""
    name = tool_of(tool)
    return Document.of(f"As {TOOLS[name]} counts", f"Figures by the names of {TOOLS[name]}.", _blocks(runs, name))


def _blocks(runs: Sequence[Run], tool: str) -> Iterator[Block]:
    for run in runs:
        yield Title(f"{display.clean(run.id, 60)} as {TOOLS[tool]} counts")
        # The warning that times between tokens, and goodput by them, say nothing, though that tool prints them.
        why = unstreamed(run.requests)
        told = f"{why}: what this tool prints of the time between tokens, and goodput by a limit on it, says nothing."
        yield row("!", [told] if why else [])
        yield from _figures(run, tool)
    yield Line(
        "From the same rows as all else, under that tool's definitions: answered requests only where it leaves "
        f"failures out, and no steady window. How each differs: `twinlens explain {tool.replace('_', '-')}`.",
        "dim",
    )


def _figures(run: Run, tool: str) -> Iterator[Block]:
    figures, notes, rows = peer_figures(run, tool), dict[str, int](), []
    for key, figure in figures.items():
        why = display.method(figure) if figure.value is not None else f"not measured: {display.absence(figure)}"
        count = display.ABSENT if figure.n is None else f"{figure.n:,}"
        mark = f"[{notes.setdefault(why, len(notes) + 1)}]"
        rows.append(cells((display.clean(key, 48), display.value(figure, 6), count, mark)))
    caption = f"Figures that {TOOLS[tool]} would print of this run."
    yield Table(caption, ("figure", "value", "n", "how"), tuple(rows), ("left", "right", "right", "left"))
    yield Line("" if figures else "no answer with tokens: there is nothing to count")
    yield from (row(f"[{place}]", [why], "dim") for why, place in notes.items())
