"""Choice of devices: two rankings, reasons that are true, and arithmetic that agrees with `plan fit`."""

from __future__ import annotations

import math
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import twinlens as tl
from twinlens.api.plan.choose import ChooseResult
from twinlens.api.plan.reading.subject import subject_of
from twinlens.errors import BadInput
from twinlens.planning.choose.candidate import Ranking
from twinlens.planning.choose.search import reach_of
from twinlens.planning.choose.serving_choice import _needed, _plan, serving_ways
from twinlens.planning.choose.training_choice import needed_bytes, training_ways
from twinlens.planning.choose.wanted import ServingWanted, TrainingWanted
from twinlens.planning.fit.serving import Serving
from twinlens.planning.fit.serving_answer import placed
from twinlens.planning.fit.training import Training
from twinlens.planning.fit.training_answer import Ways, usable
from twinlens.planning.fit.training_answer import placed as placed_training
from twinlens.planning.prediction.band import shipped as constants
from twinlens.planning.prediction.work import held_format, kept_cache
from twinlens.planning.sold import node_watts
from twinlens.spec.catalogue import shipped


@lru_cache(maxsize=8)
def asked(**options: Any) -> ChooseResult:
    return tl.plan.choose("llama-3.1-70b", **{"training": 30, "users": 16, "context": "8K", **options})


def ranking(found: Ranking | None) -> Ranking:
    assert found is not None
    assert found.candidates
    return found


def test_two_rankings_and_no_score_over_both() -> None:
    found = asked().answer
    inference, training = ranking(found.inference), ranking(found.training)
    assert (inference.lens, training.lens) == ("inference", "training")
    assert not [name for name in asked().to_json() if "score" in name or "overall" in name]
    serves, trains = (each.candidates[0].limit for each in (inference, training))
    assert serves.gains["bandwidth"] > 1.01 > trains.gains["bandwidth"]
    assert trains.resource == "compute"
    assert trains.gains["compute"] > serves.gains["compute"]


def test_every_device_is_ranked_or_has_a_reason() -> None:
    names = {each.name for each in shipped().devices}
    for one in asked().answer.rankings:
        assert {each.device for each in (*one.candidates, *one.rejected)} == names


def test_places_are_those_that_comparisons_allow() -> None:
    for one, metric in zip(asked().answer.rankings, ("tpot", "training step"), strict=True):
        engine = "vllm" if metric == "tpot" else "nemo"
        known = constants()["serving" if metric == "tpot" else "training"].seen
        seen = {"engine": engine in known["engine"], "model": "llama-3.1-70b" in known["model"]}
        for each in one.candidates:
            better = []
            for other in one.candidates:
                times = reach_of(metric, device={each.device, other.device} <= known["device"], **seen)
                assert times is not None
                better += [other] if other.rate.number > times * each.rate.number else []
            assert each.rank[0] == 1 + len(better)
            assert each.rank[0] <= each.rank[1]
        places = [each.rank[0] for each in one.candidates]
        assert places == sorted(places)


def test_figures_add_up_and_carry_their_bands() -> None:
    for one in asked().answer.rankings:
        for each in one.candidates:
            for figure in each.times:
                parts = sum(float(part.value or 0) for part in figure.inputs)
                assert parts == pytest.approx(float(figure.value or 0), rel=1e-6)
                assert figure.low is not None
            assert each.rate.low is not None


@pytest.mark.parametrize("precision", ["bf16", "fp8", "nvfp4"])
def test_memory_of_serving_is_that_of_plan_fit(precision: str) -> None:
    catalogue = shipped()
    subject = subject_of("llama-3.1-70b", catalogue)
    assert subject.shape is not None
    wanted = ServingWanted(subject, subject.shape, 16, 7168, 1024, (precision,), None, None)
    for name in ("h100-sxm-80gb", "l4", "b200-sxm-180gb"):
        device = catalogue.device(name)
        pairs: Any = type("Pairs", (), {"devices": (device,), "precisions": (precision,)})
        ways = serving_ways(subject.shape, 8)
        needed = _needed([_plan(wanted, precision)], pairs, ways, np.ceil(16 / ways.copies))[0]
        for place in np.nonzero(ways.pipeline == 1)[0]:
            users = int(np.ceil(16 / ways.copies[place]))
            element = kept_cache(precision)[1]
            plan = Serving(subject, held_format(precision), "", element, users, 8192)
            fit = placed(plan, device, int(ways.tensor[place]))
            assert needed[place] == pytest.approx(float(fit.needed.value or 0), rel=1e-9)


@pytest.mark.parametrize("method", ["full", "lora", "qlora"])
def test_memory_of_training_is_that_of_plan_fit(method: Any) -> None:
    catalogue = shipped()
    subject = subject_of("llama-3.1-8b", catalogue)
    assert subject.shape is not None
    wanted = TrainingWanted(subject, subject.shape, method, 32, 4096, ("bf16",))
    ways = training_ways(wanted, 8)
    needed, device = needed_bytes(wanted, ways), catalogue.device("h100-sxm-80gb")
    compared = 0
    for place in np.nonzero((ways.pipeline == 1) & (ways.recompute == 1))[0]:
        plan = Training(subject, method, context=4096, batch=int(ways.microbatch[place]))
        way = Ways(int(ways.tensor[place]), 1, 1, 3)
        fit = placed_training(plan, device, int(ways.devices[place]), way)
        assert needed[place] == pytest.approx(float(fit.needed.value or 0), rel=1e-6)
        compared += 1
    assert compared > 10


def test_a_rejected_device_names_a_constraint_that_truly_fails() -> None:
    found = asked(ecc=True, datacentre=True, on_premise=True, power="20kW", speed=20).answer
    catalogue = shipped()
    for one in found.rankings:
        for each in one.rejected:
            device, n = catalogue.device(each.device), each.reason.numbers
            true = {
                "ecc": lambda d=device: d.ecc is not True,
                "datacentre": lambda d=device: not d.is_datacentre,
                "on-premise": lambda d=device: d.form == "cloud-only",
                "processor": lambda d=device: d.form == "processor",
                "no-rate": lambda d=device: not (d.rate("bf16") or d.rate("fp16") or d.rate("fp32")),
                "no-training": lambda d=device: d.form == "desktop-system",
                "power-unknown": lambda d=device: d.tdp_w is None and d.machine_w is None,
                "power": lambda n=n, d=device: (
                    n["needed_w"] == pytest.approx(float(node_watts(d, n["devices"]))) and n["needed_w"] > 20_000
                ),
                "memory": lambda n=n, d=device: (
                    n["needed_bytes"] > n["usable_bytes"] and n["usable_bytes"] <= float(usable(d, 1.0).value or 0)
                ),
                "tpot": lambda n=n: n["best_s"] > n["target_s"] == pytest.approx(0.05),
            }[each.reason.subject]
            assert true(), (each.device, each.reason)


def test_hand_worked_memory_of_the_fourth_branch() -> None:
    """70B, AdamW at 16 bytes a parameter: 70.55 B × 16 B / 8 = 141.1 GB of state on each of eight."""
    found = asked(training=90).answer.branch
    assert found is not None
    assert found.subject == "training-node"
    shown = {(each.numbers["device"], each.numbers["devices"]): each.numbers for each in found.because}
    assert not shown["h100-sxm-80gb", 8]["fits"]
    assert not shown["b200-sxm-180gb", 4]["fits"]
    assert shown["b200-sxm-180gb", 8]["fits"]
    eight = shown["h100-sxm-80gb", 8]["needed_bytes"]
    assert 141.1e9 < eight < 141.1e9 + 20e9


def test_training_that_no_machine_does_in_time_is_of_many_nodes() -> None:
    """405B on 100B tokens was "4 to 8 H100, H200 or B200: overridden": 6 × 405.9 B × 100 B in 30 days are 94 PFLOP/s,
    42 devices at all of 2.25 PFLOP/s."""
    given = {"training": 100, "tokens": "100B", "within": "30days", "most_devices": 512, "among_devices": "H200,B200"}
    found = tl.plan.choose("405B", **given).answer.branch
    assert found is not None
    assert (found.subject, found.numbers["number"], found.numbers["feasible"]) == ("many-nodes", 5, True)
    assert found.numbers["devices"] > 42
    assert found.numbers["nodes"] == -(-found.numbers["devices"] // 8)


def test_training_from_scratch_that_one_machine_does_in_time_overrides_many_nodes() -> None:
    """20 tokens a parameter are 161 B for 8B; of fewer nobody speaks of training from scratch."""
    given = {"training": 100, "within": "800days", "among_devices": "H200"}
    scratch, tuned = (tl.plan.choose("8B", tokens=each, **given).answer.branch for each in ("170B", "1B"))
    assert scratch is not None
    assert tuned is not None
    assert (scratch.subject, scratch.numbers["instead"]) == ("many-nodes", "training-node")
    assert (tuned.subject, tuned.numbers["feasible"]) == ("training-node", True)


@pytest.mark.parametrize(
    ("model", "users", "branch"),
    [("8B", 1, "one-card"), ("8B", 500, "tensor-group"), ("70B", 2, "one-card"), ("70B", 64, "tensor-group")],
)
def test_one_card_or_several_is_a_matter_of_users_and_not_of_parameters(model: str, users: int, branch: str) -> None:
    found = tl.plan.choose(model, inference=100, users=users, context="2K", speed=10).answer
    assert found.branch is not None
    assert (found.branch.subject, found.branch.numbers["users"]) == (branch, users)
    alone = any(each.devices == 1 for each in ranking(found.inference).candidates)
    assert found.branch.numbers["feasible"] is (alone if branch == "one-card" else not alone)


def test_a_405b_in_16_bits_by_hand() -> None:
    """405.9 B × 2 B = 811.7 GB: more than 8 × 80 GB, less than 8 × 141 GB, so 16 H100 or 8 H200."""
    found = tl.plan.choose("llama-3.1-405b", training=0, users=1, context="4K", among_devices="H100,H200").answer
    assert {each.device: each.devices for each in ranking(found.inference).candidates} == {
        "h100-sxm-80gb": 16,
        "h200-sxm-141gb": 8,
    }


def test_h200_over_h100_is_near_the_ratio_of_their_bandwidths() -> None:
    """One user of an 8B: 4.8 / 3.35 TB/s = 1.43 of what is read; a share of a step is overhead, equal on both."""
    found = tl.plan.choose("llama-3.1-8b", training=0, users=1, context="4K", among_devices="H100,H200").answer
    one = {each.device: each for each in ranking(found.inference).candidates}
    ratio = float(one["h200-sxm-141gb"].rate.value or 0) / float(one["h100-sxm-80gb"].rate.value or 1)
    assert 1.15 < ratio <= 1.4328 + 0.01


def test_hours_and_use_by_hand() -> None:
    """8 h of serving are 80 %, so 2 h of training are 20 %; 10 of 24 h are in use."""
    found = asked(training=20, train="qlora", duty="8h").answer.system
    assert found is not None
    assert found.subject == "shared-by-turns"
    assert found.numbers["trains_h"] == pytest.approx(2.0)
    assert found.numbers["use"] == pytest.approx(10 / 24)


def test_a_tenth_more_bandwidth_of_one_user_is_most_of_decode() -> None:
    first = ranking(asked(training=0, users=1, context="1K").answer.inference).candidates[0]
    assert first.limit.resource == "bandwidth"
    assert 1.04 < first.limit.gains["bandwidth"] <= 1.1
    assert first.limit.gains["compute"] < 1.01


OWN = """
[[device]]
name = "own"
vendor = "Mine"
memory_bytes = 64_000_000_000
bandwidth_bytes_per_s = 2e12
dense_flop_per_s = { bf16 = 400e12, fp8 = 800e12 }
link = "own-link"
bus = "pcie5-x16"
domain = 4
sold_in = 4
source = "a datasheet"
"""
LINK = """
[[link]]
name = "own-link"
kind = "device"
one_way_bytes_per_s = 300e9
topology = "switch"
source = "a datasheet"
"""
MORE = {"bandwidth": ("2e12", "2.2e12"), "compute": ("bf16 = 400e12", "bf16 = 440e12"),
        "narrow": ("fp8 = 800e12", "fp8 = 880e12"), "link": ("300e9", "330e9")}  # fmt: skip


@pytest.mark.parametrize("row", MORE)
def test_a_device_with_a_tenth_more_of_a_row_does_what_is_said(row: str, tmp_path: Path) -> None:
    """Elasticities, each held to a catalogue whose datasheet has it; a 70B in fp8 on one board of four."""
    gained: dict[str, list[float]] = {}
    for folder, change in (("now", ("", "")), ("more", MORE[row])):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "devices.toml").write_text(OWN.replace(*change), encoding="utf-8")
        (tmp_path / folder / "links.toml").write_text(LINK.replace(*change), encoding="utf-8")
        found = tl.plan.choose(
            "70B", users=16, context="4K", precision="fp8", training=30, train="lora", training_model="8B",
            training_precision="fp8", most_devices=4, among_devices="own", catalogue=tmp_path / folder,
        ).answer  # fmt: skip
        for each in found.rankings:
            gained.setdefault(each.lens, []).append(each.candidates[0].rate.number)
            if folder == "now":
                gained[each.lens].append(each.candidates[0].limit.gains[row])
    assert set(gained) == {"inference", "training"}
    for now, said, then in gained.values():
        assert said == pytest.approx(then / now, rel=1e-9)
    if row != "narrow":
        assert gained["inference"][1] > 1.001, "and it is a gain"


def test_rows_of_a_datasheet_together_gain_no_more_than_a_tenth() -> None:
    """Times are sums of work over rates, so elasticities add up to 1 at most; what lacks is overhead."""
    for found in (asked(), asked(precision="fp8,nvfp4", train="qlora"), asked(training=0, users=200)):
        for each in (one for ranked in found.answer.rankings for one in ranked.candidates):
            slopes = [math.log(gain) / math.log(1.1) for name, gain in each.limit.gains.items() if name != "memory"]
            assert -0.02 <= sum(slopes) <= 1.02, each.device


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"training": 30, "inference": 60}, "--inference 70"),
        ({"training": "nan"}, "no number"),
        ({"training": -1}, "0 to 100"),
        ({"users": 0}, "--users"),
        ({"training": 100, "users": 3}, "0 % of the work"),
        ({"speed": 0}, "--speed"),
        ({"speed": "nan"}, "--speed"),
        ({"speed": 5000}, "possible with --speed"),
        ({"power": "1W"}, "possible with --power"),
        ({"power": "20"}, "--power 20kW"),
        ({"duty": "25h"}, "24 h"),
        ({"ttft": "fast"}, "write --ttft '12 h', 30days, 2s or 50ms"),
        ({"answer": 9000}, "--answer 8,191"),
        ({"precision": "fp7"}, "did you mean"),
        ({"compliance": "hippa"}, "did you mean 'hipaa'"),
        ({"among_devices": "H1000"}, "H1000"),
        ({"among_devices": "tpu-v6e", "on_premise": True}, "only devices of a cloud"),
        ({"within": "12h"}, "--tokens and --within"),
        ({"most_devices": 5000}, "at most 1,024"),
        ({"tokens": "1T", "within": "1h", "training": 100, "users": None}, "times as long"),
        ({"context": "1024K"}, "positions"),
        ({"training": 0, "most_devices": 24, "among_devices": "m1-7-core"}, "fits on 20 only"),
    ],
)
def test_what_cannot_be_is_one_sentence(options: dict[str, Any], words: str) -> None:
    with pytest.raises(BadInput) as wrong:
        asked(**options)
    assert words in str(wrong.value)
    assert "\n" not in str(wrong.value)
    assert len(str(wrong.value)) < 320


def test_what_is_said_to_be_possible_is() -> None:
    with pytest.raises(BadInput) as wrong:
        asked(speed=5000, training=0)
    told = str(wrong.value).rpartition("--speed ")[2]
    assert asked(speed=told, training=0).answer.inference is not None


def test_a_box_that_cannot_do_both_in_a_day_is_not_called_feasible() -> None:
    """24 h of serving and 16 h of training are two systems; the branch said one box, feasible, beside that."""
    found = tl.plan.choose("8B", training=40, train="qlora").answer
    assert found.branch is not None
    assert found.system is not None
    assert found.system.subject == "two-hours"
    assert (found.branch.numbers["feasible"], found.branch.numbers["instead"]) == (False, "two-systems")
    assert found.branch.because == (found.system,)
    shared = tl.plan.choose("8B", training=40, train="qlora", duty="8h").answer
    assert shared.branch is not None
    assert shared.branch.numbers["feasible"] is True
