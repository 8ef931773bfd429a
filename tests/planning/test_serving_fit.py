"""Whether serving fits: the figures of the method, worked by hand."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import twinlens as tl
from twinlens.errors import BadInput


def part(found: tl.plan.FitResult, name: str) -> float:  # type: ignore[name-defined]
    return next(float(each.value) for each in found.answer.asked.parts if each.name == name)


def test_a_70b_for_16_users_at_32k_does_not_fit_on_one_b200() -> None:
    found = tl.plan.fit("70B", users=16, context="32K", device="B200")
    assert found.fits is False
    # 2 × 80 layers × 8 KV heads × 128 wide × 2 B × 32,768 tokens × 16 users
    assert part(found, "kv") == 2 * 80 * 8 * 128 * 2 * 32768 * 16 == 171_798_691_840
    assert part(found, "weights") == 70_553_706_496 * 2
    changed = {each.subject: each.numbers for each in found.answer.changes}
    assert changed["devices"]["devices"] == 2
    assert {"users", "context", "weights-and-kv"} <= set(changed)


def test_what_would_do_does() -> None:
    found = tl.plan.fit("70B", users=16, context="32K", device="B200")
    changed = {each.subject: each.numbers for each in found.answer.changes}
    users, context = changed["users"]["users"], changed["context"]["context"]
    assert tl.plan.fit("70B", users=users, context="32K", device="B200").fits
    assert not tl.plan.fit("70B", users=users + 1, context="32K", device="B200").fits
    assert tl.plan.fit("70B", users=16, context=context, device="B200").fits
    assert not tl.plan.fit("70B", users=16, context=context + 16, device="B200").fits
    assert tl.plan.fit("70B", users=16, context="32K", device="B200", devices=2).fits
    both = changed["weights-and-kv"]
    assert tl.plan.fit("70B", users=16, context="32K", device="B200", precision=both["weights"], kv=both["kv"]).fits


def test_less_room_for_sampling_is_a_change_where_it_is_enough() -> None:
    asked = {"model": "70B", "users": 8, "context": "32K", "device": "H100", "devices": 4}
    users = next(each.value for each in tl.plan.fit(**asked).answer.most if each.name == "most-users")
    found = tl.plan.fit(**asked | {"users": int(users) + 1})
    assert found.fits is False
    assert "sequences" in {each.subject for each in found.answer.changes}
    assert tl.plan.fit(**asked | {"users": int(users) + 1}, max_sequences=int(users) + 1).fits


def test_stages_of_a_pipeline_divide_weights_and_cache() -> None:
    one = tl.plan.fit("70B", users=4, context="8K", device="H200")
    two = tl.plan.fit("70B", users=4, context="8K", device="H200", devices=2, pipeline=2)
    assert part(two, "weights") == part(one, "weights") / 2
    assert part(two, "kv") == part(one, "kv") / 2
    assert "pipeline 2" in repr(two)
    assert len(repr(two).splitlines()) <= 24


def test_a_bare_size_without_layers_has_no_cache_and_says_so() -> None:
    found = tl.plan.fit("13B", users=16, context="32K", device="B200")
    assert found.fits is None
    assert next(each for each in found.answer.asked.parts if each.name == "kv").reason is not None
    assert "its layers are not known" in repr(found)
    assert "has no layers here" in repr(tl.plan.fit("13B"))
    assert tl.plan.fit("700B", device="L4").fits is False, "weights alone are too much"


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"users": 0}, "count from 1"),
        ({"users": "nan"}, "no whole number"),
        ({"users": -3}, "no whole number"),
        ({"users": "16 GB"}, "no whole number"),
        ({"context": "32 GB"}, "no number of tokens"),
        ({"context": "0"}, "count from 1"),
        ({"device": "B2000"}, "did you mean"),
        ({"device": "L44"}, "did you mean 'l4'"),
        ({"device": "\x1b[31m"}, "no device"),
        ({"precision": "fp7"}, "did you mean"),
        ({"kv": "fp7"}, "did you mean"),
    ],
)
def test_what_cannot_be_is_refused_in_one_sentence(asked: dict[str, object], says: str) -> None:
    with pytest.raises(BadInput, match=says):
        tl.plan.fit("70B", **asked)


def test_models_beside_each_other_take_what_each_takes_alone() -> None:
    both = tl.plan.fit("8B", beside="qwen3-8b,gpt-oss-20b", users=8, device="H100")
    alone = [
        tl.plan.fit(name, users=8, device="H100").answer.asked.needed.number
        for name in ("8B", "qwen3-8b", "gpt-oss-20b")
    ]
    assert both.answer.asked.needed.number == pytest.approx(sum(alone))
    assert both.fits is False
    changed = {each.subject: each.numbers for each in both.answer.changes}
    more = tl.plan.fit(
        "8B", beside="qwen3-8b,gpt-oss-20b", users=8, device="H100", devices=changed["devices"]["devices"]
    )
    assert more.fits
    assert "beside qwen3-8b, gpt-oss-20b" in " ".join(repr(both).split())


def test_each_model_beside_another_is_checked() -> None:
    with pytest.raises(BadInput, match="gpt3-175b"):
        tl.plan.fit("8B", beside="gpt3-175b", context="64K", device="H100")
    with pytest.raises(BadInput, match="did you mean"):
        tl.plan.fit("8B", beside="qwen3-8", device="H100")
    with pytest.raises(BadInput, match="no option of training"):
        tl.plan.fit("8B", beside="qwen3-8b", train="full", device="H100")


def seeing(folder: Path) -> tuple[Path, Path]:
    """Configs of Qwen2.5-VL-7B without and with its image tower."""
    text = {
        "vocab_size": 152064, "hidden_size": 3584, "intermediate_size": 18944, "num_hidden_layers": 28,
        "num_attention_heads": 28, "num_key_value_heads": 4, "max_position_embeddings": 128000,
    }  # fmt: skip
    sees = {
        "depth": 32, "hidden_size": 1280, "intermediate_size": 3420, "num_heads": 16, "out_hidden_size": 3584,
        "patch_size": 14, "spatial_merge_size": 2, "temporal_patch_size": 2, "window_size": 112,
        "fullatt_block_indexes": [7, 15, 23, 31],
    }  # fmt: skip
    blind, whole = folder / "blind.json", folder / "sees.json"
    config = {"model_type": "qwen2_5_vl", "tie_word_embeddings": False, **text}
    blind.write_text(json.dumps(config))
    whole.write_text(json.dumps(config | {"vision_config": sees}))
    return blind, whole


def test_the_image_tower_of_a_model_that_sees_is_among_its_weights(tmp_path: Path) -> None:
    """Qwen2.5-VL-7B: 676.6 M parameters of encoder and projector in 16 bits, 1.353 GB, which were left out."""
    blind, whole = seeing(tmp_path)
    unread = tmp_path / "unread.json"
    unread.write_text(json.dumps(json.loads(blind.read_text()) | {"vision_config": {"depth": 32}}))
    found = [tl.plan.fit(str(file), device="H100") for file in (blind, whole, unread)]
    weights = [next(float(part.value or 0) for part in each.answer.asked.parts if part.name == "weights")
               for each in found if each.answer.asked]  # fmt: skip
    assert weights[1] - weights[0] == pytest.approx(2 * 676.6e6, rel=1e-4)
    assert weights[2] == weights[0]
    assert "tower-unknown" in [note.subject for note in found[2].answer.assumptions()]
    assert "the image tower of qwen2_5_vl takes no memory" in " ".join(str(found[2]).split())


def test_the_image_tower_is_trained_with_the_rest_or_stays_frozen_in_16_bits(tmp_path: Path) -> None:
    """676.6 M parameters: 16 bytes of state each in full training, 2 beside adapters; no images in the batches."""
    blind, whole = seeing(tmp_path)
    for way, each in (("full", 16.0), ("lora", 2.0)):
        found = [tl.plan.fit(str(file), device="B300", context="4K", train=way) for file in (blind, whole)]
        sums = [sum(float(part.value or 0) for part in one.answer.asked.parts) for one in found if one.answer.asked]
        assert sums[1] - sums[0] == pytest.approx(each * 676.6e6, rel=1e-4)
    assert "hold no images" in " ".join(str(found[1]).split())


def test_mistral_7b_is_the_one_that_people_mean() -> None:
    """v0.2 and later see all tokens: at 32K the cache is 8 times that of v0.1, whose window is 4,096."""
    caches = [
        next(float(part.value or 0) for part in asked.parts if part.name == "kv")
        for name in ("mistral-7b", "mistral-7b-v0.1")
        if (asked := tl.plan.fit(name, device="H100", context=32768).answer.asked)
    ]
    assert caches[0] == 8 * caches[1]


def test_screen_and_page_mark_the_same_answers_as_close() -> None:
    """The page left out the "!" of what an error of 3 % may turn."""
    from twinlens.reporting.document.block import Table

    found = tl.plan.fit("70B", users=16, context="32K")
    close = [each for each in found.answer.others if each.is_close]
    assert close
    tables = [each for each in found.document().blocks if isinstance(each, Table)]
    rows = {row[0].text: row[-1].text for table in tables for row in table.rows}
    for each in found.answer.others:
        assert rows[each.device].endswith("!") == each.is_close
    assert all(f"{rows[each.device]}" in str(found) for each in close[:1])
    page = found.to_html()
    assert all(f">{rows[each.device]}</td>" in page for each in close)


def test_a_plan_that_names_no_run_loads_nothing_that_reads_runs() -> None:
    asked = "import sys; from twinlens.api.plan.fit import fit; fit('8B', device='H100'); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "twinlens.planning.fit.answer" in loaded
    assert not {"scipy", "pyarrow", "altair", "twinlens.record.run", "twinlens.stats.run_summary"} & loaded
