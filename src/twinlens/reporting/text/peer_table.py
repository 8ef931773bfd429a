"""A served run in another tool's own figures, under its names and definitions: never beside ours in one table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich import box
from rich.console import Group as Stack
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from twinlens.errors import BadInput, nearest
from twinlens.record.estimate import Estimate
from twinlens.record.run import Run
from twinlens.reporting import display
from twinlens.reporting.text.footnote import Footnotes, hanging
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


def peer_table(runs: Sequence[Run], tool: str) -> RenderableType:
    """One table a run: the tool's name of each figure, its value, and how that tool counts it."""
    name = tool_of(tool)
    parts: list[RenderableType] = []
    for run in runs:
        title = f"{display.clean(run.id, 60)} as {TOOLS[name]} counts"
        figures = peer_figures(run, tool)
        parts += [Text(title, style="bold"), *_not_streamed(run), _table(figures), Text("")]
    explanation = (
        "From the same rows as all else, under that tool's definitions: answered requests only where it leaves "
        f"failures out, and no steady window. How each differs: `twinlens explain {name.replace('_', '-')}`."
    )
    return Stack(*parts, hanging("", explanation, "dim"))


def _not_streamed(run: Run) -> list[RenderableType]:
    """The warning that times between tokens, and goodput by them, say nothing, though that tool prints them."""
    why = unstreamed(run.requests)
    said = f"{why}: what this tool prints of the time between tokens, and goodput by a limit on it, says nothing."
    return [hanging("! ", said, "")] if why else []


def _table(figures: Mapping[str, Estimate]) -> RenderableType:
    if not figures:
        return Text("no answer with tokens: there is nothing to count")
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    for head, side in (("figure", "left"), ("value", "right"), ("n", "right"), ("", "left")):
        table.add_column(head, justify=side, no_wrap=True)  # type: ignore[arg-type]
    notes = Footnotes()
    for key, figure in figures.items():
        why = display.method(figure) if figure.value is not None else f"not measured: {display.absence(figure)}"
        count = display.ABSENT if figure.n is None else f"{figure.n:,}"
        table.add_row(display.clean(key, 48), display.value(figure, 6), count, notes.mark(why))
    return Stack(table, *notes.listed())
