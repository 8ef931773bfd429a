"""`twinlens tune`: search within a bound, prove the winner, and say whether anything was gained."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from twinlens.api.questions import TUNE, Tune
from twinlens.cli.screen import err, out, print_json, sentences


def run(name: str, given: Mapping[str, Any]) -> None:
    with sentences():
        asked = Tune.read(TUNE.name, given)
        from twinlens.api.measuring.tune import tune
        from twinlens.cli.progress import progress
        from twinlens.tuning.tuning import end_tuning

        found = tune(asked.spec, asked.out, watch=progress(asked.quiet), set_=asked.set_, fresh=asked.fresh,
                     keep_open=True)  # fmt: skip
        if asked.file is not None:
            found.write_html(asked.file)
        if asked.json_:
            print_json(found.to_json())
        else:
            out().print(found.screen(why=asked.all_))
            err().print(f"\ntuning: {found.folder}", soft_wrap=True)
        sys.stdout.flush()
        end_tuning(found.folder)
