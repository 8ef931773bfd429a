"""Saves by hand: which step has one, what a row then holds, and the recovery of ranks that are only played."""

import json
import math
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from material import spec_of, training
from twinlens.executors.torch.parallel.trainer import RunSaves
from twinlens.executors.torch.save_journal import Journal, filesystem_of, losses_compared
from twinlens.record.step import Marks
from twinlens.spec.protocol import Kill
from twinlens.spec.study import RunSpec
from twinlens.system.page_cache import drop_pages, files_below, size_below

S = 10**9


def asked(folder: Path, every: int = 2, mode: str = "sync") -> RunSpec:
    spec = spec_of(training("torch", "tiny"))
    save = {"every_steps": every, "mode": mode, "folder": str(folder)}
    data = spec.to_dict()
    data["workload"]["checkpoint"] = save
    return RunSpec.model_validate(data | {"point": spec.point, "protocol": spec.protocol})


def whole(folder: Path, size: int = 10) -> None:
    folder.mkdir(parents=True)
    (folder / ".metadata").write_bytes(b"x" * size)


def marks(begin_s: int, loss: float) -> Marks:
    return Marks(begin_s * S, (begin_s + 1) * S, 1, 1, loss=loss)


def test_two_saves_are_kept_and_the_one_before_goes_first(tmp_path: Path) -> None:
    journal = Journal(asked(tmp_path))
    assert journal.order(1) is None
    for step in (2, 4):
        order = journal.order(step)
        assert order is not None
        assert order.drop == ()
        whole(order.folder)
    order = journal.order(6)
    assert order is not None
    assert [each.name for each in order.drop] == ["2"]
    assert journal.last_whole(before=4) == (2, order.folder.parent / "2")
    assert journal.last_whole(before=9) == (4, order.folder.parent / "4")
    journal.close()
    assert not list(tmp_path.iterdir())


def test_a_save_that_was_not_finished_is_never_gone_on_from(tmp_path: Path) -> None:
    journal = Journal(asked(tmp_path))
    order = journal.order(2)
    assert order is not None
    order.folder.mkdir()
    (order.folder / "__0_0.distcp").write_bytes(b"half")
    assert journal.last_whole(before=9) is None


def test_a_step_holds_what_its_save_blocked_and_a_repeat_is_held_against_the_first_time(tmp_path: Path) -> None:
    journal = Journal(asked(tmp_path))
    journal.origin_ns = 100 * S
    first = journal.took(1, marks(0, 5.0), None, False)
    paid = journal.took(2, marks(1, 4.0), {"begin_ns": 102 * S, "blocked_ns": 3 * S}, False)
    beside = journal.took(3, marks(5, 3.0), None, True)
    again = journal.took(3, marks(9, 3.03), None, False)
    assert [each.tag for each in (first, paid, beside, again)] == [None, None, "saving", "repeat"]
    assert (paid.end_ns, paid.checkpoint_ns) == (5 * S, 3 * S)
    journal.note_durable({2: 104 * S, 7: 1})
    journal.note_restore(2, None, 0.5, [3.0])
    known = journal.record()
    assert known.saves[0].durable_ns == 4 * S
    assert known.restore is not None
    assert known.restore.resumed.worst == 0.0
    assert known.restore.resumed.is_equal


@pytest.mark.parametrize(("first", "again"), [(math.nan, 4.0), (4.0, math.nan), (None, 4.0), (4.0, None), (0.0, 4.0)])
def test_a_step_without_a_finite_loss_is_not_equal_whatever_the_others_are(
    tmp_path: Path, first: float | None, again: float | None
) -> None:
    journal = Journal(asked(tmp_path))
    for step, loss in enumerate((5.0, first, 3.0), 1):
        journal.took(step, replace(marks(step, 0.0), loss=loss), None, False)
    journal.note_restore(1, None, 0.5, [again, 3.0])
    known = journal.record().restore
    assert known is not None
    assert known.resumed.is_equal is False
    assert json.loads(json.dumps(asdict(known.resumed), allow_nan=False)) == asdict(known.resumed), "run.json takes it"


def test_two_losses_of_zero_are_equal(tmp_path: Path) -> None:
    journal = Journal(asked(tmp_path))
    journal.took(1, marks(1, 0.0), None, False)
    journal.note_restore(0, None, 0.5, [0.0])
    known = journal.record().restore
    assert known is not None
    assert (known.resumed.worst, known.resumed.is_equal) == (0.0, True)


def test_losses_are_compared_by_the_larger_and_those_that_are_not_numbers_are_counted() -> None:
    found = losses_compared([(4.0, 5.0), (5.0, 4.0), (1.0, 1.0), (math.inf, math.inf), (None, 2.0)])
    assert (found.steps, found.worst, found.unknown) == (5, pytest.approx(0.2), 2)
    assert not found.are_within(1.0)
    assert not losses_compared([]).are_within(1.0), "nothing was compared"
    assert losses_compared([(4.0, 5.0)]).are_within(0.21)


def test_the_storage_of_a_folder_is_known_and_its_pages_can_be_dropped(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x" * 5000)
    assert size_below(tmp_path) == 5000
    assert filesystem_of(tmp_path) != ""
    assert drop_pages(files_below(tmp_path)) in (True, False)
    assert (tmp_path / "file").read_bytes() == b"x" * 5000


class PlayedRanks:
    """Two ranks whose losses fall by a law; the first start after a kill fails."""

    def __init__(self) -> None:
        self.orders: list[dict[str, Any]] = []
        self.attempt, self.step = 0, 0

    def ask(self, order: dict[str, Any], doing: str) -> list[Any]:
        self.orders.append(order)
        if order["order"] == "open-again" and self.attempt == 1:
            from twinlens.errors import ExecutorFailed

            raise ExecutorFailed("a dead peer's address", code="TL307")
        if order["order"] == "go-on":
            self.step = order["step"]
        if order["order"] == "step":
            self.step += 1
            return [{"loss": 10.0 / self.step + rank} for rank in range(2)]
        return [0.25, 0.5] if order["order"] == "load" else [{"2": 4 * S}, {"2": 5 * S}]

    def kill(self, rank: int, order: dict[str, Any]) -> int:
        self.orders.append({"order": "kill", "rank": rank})
        return 7 * S

    def await_end(self) -> None:
        self.orders.append({"order": "ended"})

    def rejoin(self) -> int:
        self.attempt += 1
        return self.attempt


def test_ranks_go_on_from_the_last_whole_save_after_a_failed_attempt(tmp_path: Path) -> None:
    ranks = PlayedRanks()
    saves = RunSaves(asked(tmp_path), ranks)  # type: ignore[arg-type]
    order = saves.order(2)
    whole(Path(order["save"]))
    row, step = saves.lose_rank(Kill(at_step=4, rank=1), 5 * S)
    assert (row.kind, row.begin_ns, step) == ("recover", 2 * S, 2)
    assert [each["order"] for each in ranks.orders] == [
        "kill", "ended", "open-again", "ended", "open-again", "load", "go-on",
    ]  # fmt: skip
    known = saves.checkpoints(4)
    assert known.recovery is not None
    assert (known.recovery.restarts, known.recovery.from_step, known.recovery.resumed.is_equal) == (2, 2, None)
    assert known.restore is not None
    assert known.restore.cache_s == 0.5
    saves.close()


def test_the_save_of_all_ranks_lasts_from_the_first_begin_to_the_last_end(tmp_path: Path) -> None:
    saves = RunSaves(asked(tmp_path), PlayedRanks())  # type: ignore[arg-type]
    told = [
        {"saved": {"begin_ns": 2 * S, "blocked_ns": S}, "is_writing": False, "durable_ns": {}},
        {"saved": {"begin_ns": 3 * S, "blocked_ns": 2 * S}, "is_writing": False, "durable_ns": {}},
    ]
    row = saves.took(2, marks(0, 1.0), told, 0)
    assert (row.checkpoint_ns, row.end_ns) == (3 * S, 5 * S)


@pytest.mark.torch
@pytest.mark.slow
def test_a_killed_rank_costs_a_restart_and_no_loss(tmp_path: Path) -> None:
    from twinlens.executors.torch.parallel.trainer import ParallelTrainer

    data = asked(tmp_path, 4, "async").to_dict()
    data["executor"] = {"kind": "torch-parallel", "device": "cpu", "options": {"compared_steps": 1}}
    data["protocol"] |= {"kill": {"at_step": 7, "rank": 1}, "ceilings": False}
    data["workload"] |= {"global_batch": 4, "seq_len": 32}
    trainer = ParallelTrainer()
    try:
        trainer.open(RunSpec.model_validate(data), lambda phrase: None)
        rows = [trainer.step() for _ in range(14)]
        pids = trainer._ranks.pids
        known = trainer.checkpoints()
    finally:
        trainer.close()
    assert [row.kind for row in rows].index("recover") == 6
    assert known is not None
    assert known.recovery is not None
    assert known.recovery.from_step in (0, 4)  # the save of step 4 may not have been whole when the rank was killed
    assert [row.tag for row in rows].count("repeat") == 6 - known.recovery.from_step
    assert known.recovery.resumed.is_equal
    assert known.restore is not None
    assert known.restore.resumed.is_equal
    # The rank that was killed at step 7 may not have said when its part of step 4 was on storage.
    assert {save.step for save in known.saves if save.durable_ns is None} <= {known.recovery.from_step}
    import psutil

    assert not any(psutil.pid_exists(pid) for pid in pids)
    assert not list(tmp_path.iterdir())
