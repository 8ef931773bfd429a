"""The questions of the verbs that write pages or serve them: their options, written once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from twinlens.api.number import HOST, OUT, PORT, port_of
from twinlens.api.question import Kind, Question, argument, option, telling
from twinlens.api.shared_options import FILE, FLAG, FOLDER, NAME, PAGE, Out

Runs = Annotated[tuple[Any, ...], argument("Run folders, study folders, or folders of them.", "RUN")]


class Report(Question):
    """Write one self-contained HTML file."""

    runs: Runs
    file: Annotated[Path, telling("Where the page is written.", PAGE, "-o", "--output")] = Path("report.html")
    all_: Annotated[bool, telling("Nothing is folded: every metric, chart and method in sight.", FLAG)] = False


class Site(Question):
    """Make a static site of evidence packs, each checked, for any host."""

    packs: Annotated[tuple[Any, ...], argument("Evidence packs, or folders with them.", "PACK")]
    to: Annotated[Path, telling("The folder of the site; a site that was there is replaced.", FOLDER, "-o", "--output")]
    signers: Annotated[Path, option("Show only packs signed by one of these: ssh's allowed_signers.", FILE)] | None = (
        None
    )


class Browse(Question):
    """Serve everything as pages in a browser, to this machine alone."""

    folders: Annotated[tuple[Any, ...], argument("Whose runs are shown; else those of --out.", "FOLDER")] = ()
    out: Out = OUT
    host: Annotated[
        str, option("Where it listens. Beyond this machine the address that is printed holds a token.", NAME)
    ] = HOST
    port: Annotated[int, option("A port of one's own; 0: a free one.", Kind("PORT", port_of))] = PORT
    open_: Annotated[bool, telling("Open it in the browser.", FLAG)] = False


class Gateway(Question):
    """Put one OpenAI address in front of several servers, routed by what was measured of them."""

    config: Annotated[Path, argument("A TOML file with its backends, policy and limits.", "CONFIG")] | None = None
    port: Annotated[int, option("In place of the file's port; 0: a free one.", Kind("PORT", port_of))] | None = None
    check: Annotated[bool, telling("Say what the file means and how its backends stand, and end.", FLAG)] = False
    new_key: Annotated[str, telling("Make a key for a client, shown once, and the lines for the file.", NAME)] = ""
