"""What is said of a rank that was lost, and what is refused before any rank is started."""

from __future__ import annotations

from pathlib import Path

import pytest

import twinlens as tl
from material import quiet, spec_of
from twinlens.errors import BadInput
from twinlens.executors.torch.parallel.program import Lost, sentence_on

NOISE = (
    "STAGE:2026-11-23 17:14:40 13:13 ActivityProfilerController.cpp:312] Completed Stage: Warm Up\n"
    "[W1123 17:14:41.000 CPUAllocator.cpp:249] Memory block of unknown size was allocated before the profiling "
    "started, profiler results will not include the deallocation event\n"
    "/x/torch/profiler/profiler.py:217: UserWarning: Warning: Profiler clears events at the end of each cycle.\n"
    "  _warn_once(\n"
)


@pytest.mark.parametrize(
    ("printed", "end"),
    [
        ("loading\nout of luck\n" + NOISE, "its log ends: loading | out of luck"),
        (NOISE + "RuntimeError: the profiler broke\n", "its log ends: RuntimeError: the profiler broke"),
        ("[W1123 1:1:1.0 x.cpp:1] a link is slow\n", "its log ends: [W1123 1:1:1.0 x.cpp:1] a link is slow"),
        (NOISE, "its log is empty"),
    ],
)
def test_the_end_of_a_lost_ranks_log_leaves_out_what_our_own_profiler_printed(
    printed: str, end: str, tmp_path: Path
) -> None:
    log = tmp_path / "id" / "attempt_0" / "1" / "stderr.log"
    log.parent.mkdir(parents=True)
    log.write_text(printed)
    lost = Lost()
    lost.note_died(1)
    assert sentence_on(lost, 2, [6, 7], "taking step 3", tmp_path).endswith(end)


def test_an_exchange_that_gloo_has_no_figure_of_is_refused_before_a_rank_is_started(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    torch = pytest.importorskip("torch", reason="needs the torch extra")
    if torch.cuda.is_available():
        pytest.skip("ranks exchange through NCCL here")
    from twinlens.executors.torch.parallel import exchanger

    monkeypatch.setattr(exchanger, "Ranks", lambda *asked: pytest.fail("ranks were started"))
    data = {
        "executor": {"kind": "torch-collectives"},
        "workload": {"kind": "collective", "exchange": "reduce-scatter", "size_bytes": 4096},
    }
    for refusing in (
        lambda: exchanger.TorchExchanger().open(spec_of(data), quiet),
        lambda: tl.check(tl.parse(data)),  # which refuses what a measurement would
    ):
        with pytest.raises(BadInput, match="which is an all-reduce") as refused:
            refusing()
        assert refused.value.code == "TL243"


def test_the_rank_that_died_is_named_with_its_log_and_not_those_that_failed_after_it(tmp_path: Path) -> None:
    log = tmp_path / "id" / "attempt_0" / "1" / "stderr.log"
    log.parent.mkdir(parents=True)
    log.write_text("loading\nreading\nout of luck\n")
    (tmp_path / "torchrun.log").write_text("failed (exitcode: -9) local_rank: 1 (pid: 7) of binary: python\n")
    lost = Lost()
    lost.note_failed(0, "RuntimeError: Connection closed by peer")
    lost.note_died(1)
    sentence = sentence_on(lost, 2, [6, 7], "taking step 3", tmp_path)
    assert sentence == (
        "rank 1 of 2 died while taking step 3 (signal 9, SIGKILL); its log ends: loading | reading | out of luck"
    )
    alone = Lost()
    alone.note_failed(0, "RuntimeError: no")
    assert sentence_on(alone, 2, [6, 7], "opening", tmp_path) == "rank 0 of 2 failed while opening: RuntimeError: no"
    never = Lost()
    never.note_never_began([0, 1])
    (tmp_path / "torchrun.log").write_text("ModuleNotFoundError: No module named 'torch'\n")
    assert "No module named 'torch'" in sentence_on(never, 2, [], "starting", tmp_path)


def test_ranks_that_never_reach_this_machine_are_named_with_the_first_log(tmp_path: Path) -> None:
    lost = Lost()
    lost.note_never_began([1])
    log = tmp_path / "ray" / "attempt_0" / "1" / "stderr.log"
    log.parent.mkdir(parents=True)
    log.write_text("ConnectionRefusedError: [Errno 111]\n")
    sentence = sentence_on(lost, 2, [], "starting", tmp_path)
    assert sentence.startswith("ranks 1 of 2 did not begin, or do not reach this machine; of the first, its log ends:")
    hung = Lost()
    hung.note_hung([0, 1], 3.0)
    assert sentence_on(hung, 2, [], "taking step 3", tmp_path).startswith("ranks 0, 1 of 2 gave no answer in 3 s")


def test_ranks_that_cannot_begin_on_this_machine_are_explained_by_their_own_log(tmp_path: Path) -> None:
    lost = Lost()
    lost.note_never_began([0, 1])
    (tmp_path / "torchrun.log").write_text("E1122 twinlens.executors.torch.parallel.worker FAILED\n")
    silent = sentence_on(lost, 2, [], "starting", tmp_path)
    assert silent == (
        "ranks 0, 1 of 2 did not begin; the log of torchrun ends: E1122 twinlens.executors.torch.parallel.worker FAILED"
    )
    log = tmp_path / "none_1" / "attempt_0" / "0" / "stderr.log"
    log.parent.mkdir(parents=True)
    log.write_text("python: Error while finding module specification (ModuleNotFoundError: No module named 'it')\n")
    assert sentence_on(lost, 2, [], "starting", tmp_path) == (
        "ranks 0, 1 of 2 did not begin; the log of rank 0 ends: "
        "python: Error while finding module specification (ModuleNotFoundError: No module named 'it')"
    )
