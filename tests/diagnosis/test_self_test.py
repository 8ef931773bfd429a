"""The self-test: its cases, its small server, what it says, and (slow) the real thing on this machine."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from queue import SimpleQueue
from typing import Any, get_args

import pytest
from click.testing import CliRunner
from rich.console import Console

from diagnosis.saturated import CEILINGS, decoded, rate, request, served, step, told, trained
from material import twinlens
from twinlens.api.judging import self_test as api
from twinlens.cli.main import app
from twinlens.diagnosis.diagnosis import diagnose_evidence
from twinlens.diagnosis.evidence import Evidence
from twinlens.errors import BadInput, Interrupted
from twinlens.pages import codes
from twinlens.proof.carry_out import Result, carry_out, judged
from twinlens.proof.small_server import CASES, Case, Engine, Pace, Program, spec_data
from twinlens.reporting.document.terminal import screen as in_terminal
from twinlens.reporting.judging.self_test import WHY, decided_by, self_test_document, wrong_words
from twinlens.spec.load import parse

BUSY = step(data=0.01, forward=0.3, backward=0.6, optimize=0.09)
EVIDENCE: dict[str, Evidence] = {
    "compute-bound": trained(BUSY),
    "bandwidth-bound": decoded(8e9, 8e9),
    "below-ceilings": decoded(1e9, 1e9),
    "input-bound": trained(step(data=0.7, forward=0.1, backward=0.2)),
    "interconnect-bound": trained(step(communicate=0.8, forward=0.1, backward=0.1)),
    "host-bound": served(request(queue=0.1, prefill=0.1, transport=0.7, decode=0.1)),
    "queue-bound": served(request(queue=0.7, prefill=0.1, transport=0.0, decode=0.2)),
    "capacity-bound": served(
        request(queue=0.7, prefill=0.1, transport=0.0, decode=0.2), told(server_preemptions=3.0, server_kv_use_max=0.97)
    ),
}


def case_of(name: str) -> Case:
    return next(case for case in CASES if case.expected == name)


def found(name: str, saturated: str) -> Result:
    """The case `name`, measured as if `saturated` had been what bound it."""
    return judged(case_of(name), diagnose_evidence("run", EVIDENCE[saturated]))


def text_of(*results: Result) -> str:
    console = Console(width=80, record=True, file=open(os.devnull, "w"), highlight=False)  # noqa: SIM115
    console.print(in_terminal(self_test_document(results)))
    return console.export_text()


def test_every_verdict_has_a_case_and_every_case_a_reason() -> None:
    """But for those that a trial comes to, and that which says that a machine's kernels do not fill its memory."""
    others = {"latency-bound", "kernel-bound", "launch-bound"}  # the last is a note of a run
    verdicts = {code for code in codes() if code.endswith("-bound")} - others
    verdicts.add("below-ceilings")
    assert {case.expected for case in CASES} == verdicts == set(WHY)
    assert {case.program for case in CASES} == set(get_args(Program))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.expected)
def test_every_case_is_a_spec_of_one_run(case: Case, tmp_path: Path) -> None:
    config = tmp_path / "wide.json"
    config.write_text(json.dumps(case.config))
    (spec,) = parse(spec_data(case, str(config) if case.config else None, "http://127.0.0.1:1/v1", 1)).runs()
    assert spec.executor.kind == ("openai-http" if case.program == "server" else "torch")
    assert spec.protocol.duration_s < 10


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.expected)
def test_the_verdict_of_a_case_is_right_another_is_wrong_and_none_is_undecided(case: Case) -> None:
    name = case.expected
    assert found(name, name).outcome == "right"
    other = next(each for each in EVIDENCE if each != name)
    assert found(name, other).outcome == "wrong"
    undecided = judged(case, diagnose_evidence("run", replace(EVIDENCE["compute-bound"], ceilings={})))
    assert undecided.outcome == "undecided"


def test_a_machine_whose_kernels_do_not_fill_its_memory_leaves_the_case_of_bandwidth_undecided() -> None:
    kernels = CEILINGS | {"matvec_bytes_per_s": rate(5e9, "bytes/s")}
    slow = diagnose_evidence("run", decoded(1e9, 4e9, kernel_bytes=4e9, ceilings=kernels))
    assert slow.verdict.code == "kernel-bound"
    assert judged(case_of("bandwidth-bound"), slow).outcome == "undecided"
    assert judged(case_of("compute-bound"), slow).outcome == "wrong"


def test_the_screen_has_a_line_or_two_for_each_case_and_says_what_decided() -> None:
    results = [found(name, name) for name in EVIDENCE]
    text = text_of(*results, Result(case_of("interconnect-bound"), "not tested", reason="this torch has no gloo"))
    assert text.count("\n") <= 24
    assert max(map(len, text.splitlines())) <= 80
    flat = " ".join(text.split())
    assert "8 of 9 named rightly, 1 not tested." in flat
    assert "queue of the server, KV cache 97%, 3 preempted" in flat.replace(" %", "%")
    assert "this torch has no gloo" in flat
    assert "70% of matrix rate, 10% of bandwidth; 70 FLOP/byte, ridge 10" in flat.replace(" %", "%")


def test_a_wrong_name_is_said_and_a_test_in_which_nothing_was_right_shows_nothing() -> None:
    right, wrong = found("queue-bound", "queue-bound"), found("input-bound", "compute-bound")
    assert wrong_words((right,)) == ""
    assert wrong_words((right, wrong)).startswith("the diagnosis named input-bound as compute-bound")
    missing = Result(case_of("input-bound"), "not tested", reason="no torch")
    assert wrong_words((right, missing)) == ""
    assert "nothing was shown" in wrong_words((missing,))


def asked(monkeypatch: pytest.MonkeyPatch, *words: str, outcome: str = "") -> Any:
    """The command with cases that take no time: each found as itself, or all as `outcome`."""
    monkeypatch.setattr(api, "carry_out", lambda case, *_: found(case.expected, outcome or case.expected))
    return CliRunner().invoke(app, ["diagnose", "--self-test", *words])


def test_the_command_exits_0_where_all_is_right_and_1_where_one_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    good = asked(monkeypatch)
    assert (good.exit_code, "8 of 8 named rightly" in good.stdout) == (0, True)
    bad = asked(monkeypatch, outcome="queue-bound")
    assert (bad.exit_code, "1 of 8 named rightly, 7 wrong" in bad.stdout) == (1, True)
    assert "compute-bound as queue-bound" in " ".join(bad.stderr.split())


def test_cases_may_be_named_and_a_wrong_name_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    told_json = asked(monkeypatch, "queue-bound", "input-bound", "--json")
    cases = json.loads(told_json.stdout)["self_test"]
    assert [case["expected"] for case in cases] == ["input-bound", "queue-bound"]
    assert all(case["why"] == WHY[case["case"]] and case["outcome"] == "right" for case in cases)
    assert all(case["diagnosis"]["verdict"]["text"] for case in cases)
    wrong = asked(monkeypatch, "queue")
    assert wrong.exit_code == 2
    assert "the self-test has no case 'queue'" in " ".join(wrong.stderr.split())


def test_diagnose_without_a_run_says_what_it_wants() -> None:
    nothing = CliRunner().invoke(app, ["diagnose"])
    assert (nothing.exit_code, "Give a run folder, or --self-test" in " ".join(nothing.stderr.split())) == (2, True)


def test_a_case_that_cannot_run_here_is_not_tested_and_an_interrupt_ends_all(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def raising(error: Exception) -> Result:
        def measured(*_: Any) -> Path:
            raise error

        monkeypatch.setattr("twinlens.proof.carry_out._measured", measured)
        return carry_out(CASES[0], tmp_path, lambda *_: None)

    result = raising(BadInput("there is no torch here", code="TL207"))
    assert (result.outcome, decided_by(result)) == ("not tested", "there is no torch here")
    with pytest.raises(Interrupted):
        raising(Interrupted("stopped"))


# The engine of the small server, step by step


NO_TIME = {"prefill_s": 0.0, "step_s": 0.0}


def taken(out: SimpleQueue[str | None]) -> int:
    return out.qsize()


def test_the_engine_runs_as_many_as_it_has_slots_and_the_others_wait_in_order() -> None:
    engine = Engine(Pace(slots=2, **NO_TIME))
    outs = [engine.add(10, 3) for _ in range(4)]
    engine.step()
    assert [taken(out) for out in outs] == [1, 1, 0, 0]
    assert "num_requests_running" in engine.page()
    assert 'num_requests_waiting{model_name="self-test"} 2' in engine.page()
    while engine.step():
        pass
    assert [taken(out) for out in outs] == [4, 4, 4, 4], "three tokens and an end"
    assert engine.total["request_queue_time_seconds_count"] == 4
    assert engine.total["num_preemptions_total"] == 0


def test_a_cache_that_is_full_lets_nobody_in_and_puts_the_youngest_back() -> None:
    """Two prompts of 10 fit into 24; growing by one a step each they are 24 after two, and the younger has to go."""
    engine = Engine(Pace(slots=4, kv_tokens=24, **NO_TIME))
    outs = [engine.add(10, 4) for _ in range(3)]
    most = 0.0
    while engine.step():
        most = max(most, engine.used / 24)
    assert [taken(out) for out in outs] == [5, 5, 5], "each is whole in the end"
    assert engine.total["num_preemptions_total"] >= 1
    assert engine.total["generation_tokens_total"] == 12
    assert 0.9 <= most <= 1.0


def test_a_request_larger_than_the_cache_runs_alone() -> None:
    engine = Engine(Pace(kv_tokens=4, **NO_TIME))
    out = engine.add(10, 2)
    while engine.step():
        pass
    assert taken(out) == 3


# The real thing


@pytest.mark.torch
@pytest.mark.trial
@pytest.mark.slow
def test_no_resource_is_named_wrongly_on_this_machine() -> None:
    """A busy machine may leave some undecided; none is named wrongly, wherever the test runs."""
    told = twinlens("diagnose", "--self-test", "--json", timeout=900)
    assert told.returncode == 0, told.stderr
    outcomes = {case["case"]: (case["outcome"], case["found"]) for case in json.loads(told.stdout)["self_test"]}
    assert len(outcomes) == 8
    assert {outcome for outcome, _ in outcomes.values()} <= {"right", "undecided"}, outcomes
    assert sum(outcome == "right" for outcome, _ in outcomes.values()) >= 3, outcomes
