"""Pairs of ranks timed before the rows of a run of exchanges, with ranks that are only played."""

from __future__ import annotations

from typing import Any

import pytest

from material import quiet, spec_of
from twinlens.executors.torch.parallel import exchanger
from twinlens.executors.torch.parallel.exchanger import TorchExchanger
from twinlens.record.codec import encode
from twinlens.record.executor.facts import Facts
from twinlens.record.executor.record import ExecutorRecord
from twinlens.spec.study import RunSpec


class PlayedRanks:
    """Ranks of which a pair takes 1 ms, and any with the last rank 3 ms."""

    share_a_clock = False
    asked: list[dict[str, Any]]

    def __init__(self, ranks: int, *_: Any) -> None:
        self.ranks = ranks
        PlayedRanks.asked = []

    def ask(self, order: dict[str, Any], *_: Any) -> list[Any]:
        self.asked.append(order)
        if order["order"] == "join":
            return ["gloo"] * self.ranks
        if order["order"] == "room":
            return [2**30] * self.ranks
        if order["order"] == "open-exchange":
            return [encode(Facts(ExecutorRecord({})))] * self.ranks
        return [[3e-3 if self.ranks - 1 in order["ranks"] else 1e-3] * order["repeats"]] * self.ranks

    def close(self) -> None:
        pass


def asked(ranks: int) -> RunSpec:
    workload = {"kind": "collective", "exchange": "all-reduce", "size_bytes": 4096}
    executor = {"kind": "torch-collectives", "device": "cpu", "threads": 1, "options": {"ranks": ranks}}
    return spec_of({"name": "small", "executor": executor, "workload": workload})


@pytest.mark.parametrize(("ranks", "pairs", "named"), [(2, 0, []), (3, 3, ["2"]), (4, 6, ["3"]), (17, 0, [])])
def test_a_run_of_exchanges_names_a_rank_that_is_slow_with_every_other(
    ranks: int, pairs: int, named: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exchanger, "ranks_of", lambda spec, asked, *_: PlayedRanks(asked.ranks))
    facts = TorchExchanger().open(asked(ranks), quiet)
    assert [order["order"] for order in PlayedRanks.asked].count("pair") == pairs
    assert [each.subject for each in facts.findings if each.code == "slow-rank"] == named
    assert all(each.numbers["times"] == pytest.approx(3.0) for each in facts.findings if each.code == "slow-rank")
