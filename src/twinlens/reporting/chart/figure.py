"""A chart as static SVG that is safe in a page: one look, colours by precision, no script, no network."""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from xml.etree import ElementTree

import altair as alt
from altair.utils import schemapi

from twinlens.errors import TwinlensError
from twinlens.reporting.display import clean
from twinlens.reporting.palette import colour

WIDTH = 380  # of the plotting area: two charts stand side by side on a laptop, and one fits a telephone
FONT = "Helvetica, Arial, sans-serif"
SVG = "http://www.w3.org/2000/svg"

INK, SOFT, WARM, STEADY = "#222222", "#767676", "#F3D9C4", "#D6E8F5"

_ALLOWED = {
    "svg",
    "g",
    "path",
    "text",
    "rect",
    "line",
    "circle",
    "defs",
    "clipPath",
    "title",
    "desc",
    "tspan",
}


@dataclass(frozen=True, slots=True)
class Figure:
    """One chart. `title` is a sentence, `caption` says n and method, `alt` is for those who cannot see it.

    `spec`: its Vega-Lite specification as JSON, which a served page draws in the browser and a file has drawn as SVG.
    """

    id: str
    title: str
    spec: str
    caption: str
    alt: str

    @property
    def svg(self) -> str:
        """The picture; only with elements that draw, and ids of its own."""
        return _safe(_svg(self.spec), self.id, self.alt)


def colours(names: dict[str, str]) -> Any:
    """An Altair colour scale from entry name to its precision's colour (`names`: entry name → precision)."""
    return alt.Scale(domain=list(names), range=[colour(precision) for precision in names.values()])


def dashes(count: int) -> list[list[int]]:
    """Patterns of lines that one colour does not tell apart; the first is solid."""
    patterns = [[1, 0], [7, 3], [2, 2], [9, 3, 2, 3], [4, 4], [12, 4]]
    return [patterns[index % len(patterns)] for index in range(count)]


def data(rows: list[dict[str, Any]]) -> Any:
    """Rows as inline Altair data; in one string, as Altair copies values deeply each time it puts charts together."""
    return alt.InlineData(values=json.dumps(_printable(rows)), format=alt.DataFormat(type="json"))


def _printable(spec: Any) -> Any:
    """A specification, or rows, in which every text can be drawn: the library aborts the process for a NUL in one."""
    if isinstance(spec, str):
        return clean(spec, _MOST_LETTERS) if len(spec) > _MOST_LETTERS or not spec.isprintable() else spec
    if isinstance(spec, dict):
        return {_printable(name): each if name in _ROWS else _printable(each) for name, each in spec.items()}
    return [_printable(each) for each in spec] if isinstance(spec, list | tuple) else spec


def log_marks(low: float, high: float) -> list[float]:
    """Round numbers between two bounds above 0 for a logarithmic axis, few enough that the grid stays quiet."""
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for steps in ((1, 2, 5), (1, 3), (1,)):
        marks = [step * 10.0**decade for decade in decades for step in steps]
        marks = [mark for mark in marks if low <= mark <= high]
        if len(marks) <= 7:
            break
    return marks


def figure(anchor: str, chart: Any, title: str, caption: str, alt_text: str | None = None) -> Figure:
    """Draw an Altair chart. Its title stands in the page, not in the picture, so that it can wrap."""
    return Figure(anchor, title, _spec(chart), caption, alt_text or f"Chart: {title} {caption}")


_UNDRAWN = (
    f'<svg xmlns="{SVG}" width="{WIDTH}" height="40"><text x="0" y="24" font-size="14">'
    "This chart cannot be drawn with these names; the tables hold its figures.</text></svg>"
)
_ROWS = ("values", "datasets")
"""Of a specification: rows in one string, which `data` has made printable."""
_MOST_LETTERS = 400
_ADDRESS_SPACE_BYTES = 72e9
"""What the library that draws reserves (64 GiB, for V8's sandbox) with its own and ours; it aborts where it cannot."""


def _refuse_little_address_space() -> None:
    """Raises TwinlensError (TL309): a process that aborts says nothing."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return
    most, _ = resource.getrlimit(resource.RLIMIT_AS)
    if most != resource.RLIM_INFINITY and most < _ADDRESS_SPACE_BYTES:
        raise TwinlensError(
            f"charts reserve {_ADDRESS_SPACE_BYTES / 1e9:g} GB of address space (hardly any of it is memory), and this "
            f"shell allows {most / 1e9:.3g} GB; `ulimit -v unlimited` lifts that, and `show --all` needs no charts",
            code="TL309",
        )


def _spec(chart: Any) -> str:
    themed = chart.configure(
        aria=False,
        background="white",
        font=FONT,
        axis=alt.AxisConfig(
            labelFontSize=14,
            titleFontSize=14,
            titleFontWeight="normal",
            labelColor=INK,
            titleColor=INK,
            gridColor="#E6E6E6",
            domainColor="#999999",
            tickColor="#999999",
            labelLimit=190,
        ),
        # Fonts of browsers are wider than the one that places the labels: few, apart, and inside at both ends.
        axisXQuantitative=alt.AxisConfig(tickCount=5, labelOverlap="greedy", labelSeparation=8, labelFlush=True),
        legend=alt.LegendConfig(
            labelFontSize=14,
            titleFontSize=14,
            titleFontWeight="normal",
            orient="bottom",
            columns=3,
            labelLimit=200,
        ),
        header=alt.HeaderConfig(labelFontSize=14, titleFontSize=14, labelFontWeight="normal"),
        view=alt.ViewConfig(stroke=None),
    )
    return json.dumps(_printable(themed.to_dict(validate=schemapi.DEBUG_MODE)))


@lru_cache(maxsize=64)
def _svg(spec: str) -> str:
    import vl_convert  # a page whose browser draws does without it

    _refuse_little_address_space()
    try:
        return str(vl_convert.vegalite_to_svg(spec))
    except ValueError:  # a name that is a word of the library's own ("constructor"), or letters that it cannot place
        return _UNDRAWN


def _safe(text: str, anchor: str, alt_text: str) -> str:
    """The SVG with ids of its own, described, and only with elements that draw. ValueError otherwise."""
    root, clips = ElementTree.fromstring(text), dict[str, str]()
    for element in root.iter():
        element.tag = element.tag.removeprefix(f"{{{SVG}}}")
        if element.tag not in _ALLOWED:
            raise ValueError(f"a chart draws with {sorted(_ALLOWED)}, not with {element.tag!r}")
        for name, value in list(element.attrib.items()):
            if name.lower().startswith("on") or "href" in name.lower():
                raise ValueError(f"a chart carries no {name!r}")
            if name in ("class", "role", "aria-roledescription", "aria-hidden"):
                del element.attrib[name]  # one picture with one description, not a tree of unnamed parts
            elif name == "id":
                element.set(name, f"{anchor}-{_counted_anew(value, clips)}")
            elif "url(#" in value:
                element.set(name, f"url(#{anchor}-{_counted_anew(value.strip()[5:-1], clips)})")
    width = root.attrib.pop("width")
    root.attrib.pop("height")
    root.set("xmlns", SVG)
    root.set("role", "img")
    root.set("aria-label", alt_text)
    root.set("style", f"max-width:{1.15 * float(width):.0f}px")
    return ElementTree.tostring(root, encoding="unicode")


def _counted_anew(name: str, clips: dict[str, str]) -> str:
    """The id of a clip counted within its drawing: the library counts over all that its process has drawn."""
    return clips.setdefault(name, f"clip{len(clips)}") if _CLIP.fullmatch(name) else name


_CLIP = re.compile(r"clip\d+")
