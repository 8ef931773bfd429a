"""The catalogue and a user's own on top of it: what is shipped holds together, and a bad file is one sentence."""

from __future__ import annotations

import contextlib
import random
import re
from decimal import Decimal
from pathlib import Path

import pytest

import twinlens as tl
from twinlens.errors import BadInput
from twinlens.spec.catalogue import catalogue_of, shipped
from twinlens.system.home_folder import catalogue_folder

MINE = """
[[device]]
name = "my-card"
vendor = "Mine"
memory_bytes = 64_000_000_000
bandwidth_bytes_per_s = 2_000_000_000_000
tdp_w = 300
dense_flop_per_s = { bf16 = 400_000_000_000_000 }
link = "nvlink4"
domain = 4
source = "my own measurement"
"""


PRICE = '[[price]]\ndevice = "l4"\nkind = "purchase"\nlow = 1\nhigh = 2\ndate = "2026-11-01"\nsource = "my quote"\n'


def folder_of(tmp_path: Path, **files: str) -> Path:
    for name, text in files.items():
        (tmp_path / f"{name}.toml").write_text(text)
    return tmp_path


def test_every_link_and_every_price_is_of_what_is_there() -> None:
    whole = shipped()
    for device in whole.devices:
        assert device.form is not None
        assert device.link is None or whole.link(device.link)
        assert device.bus is None or whole.link(device.bus)
        assert (device.achieved_flop_per_s is None) == (device.achieved_source is None)
    for price in whole.prices:
        assert whole.device(price.device)
        assert isinstance(price.low, Decimal)
        assert len(price.source) > 10


def test_the_beginning_of_a_name_is_answered_with_those_that_begin_so() -> None:
    with pytest.raises(BadInput, match="did you mean h100-sxm-80gb or h100-pcie-80gb or h100-nvl-94gb"):
        shipped().device("H100")


@pytest.mark.parametrize(("word", "near"), [
    ("RTX 5080", "rtx-5090"), ("H800", "h100-sxm-80gb"), ("A800", "a100-sxm-80gb"), ("M5 Max", "m4-max"),
    ("RTX 4090 Laptop", "the desktop card of that number"), ("R9700", "no Radeon card"), ("MI450", "mi355x"),
    ("MI455X", "mi355x"), ("VR200", "gb300"),
])  # fmt: skip
def test_of_a_device_without_a_source_the_nearest_is_named_and_how_to_plan_with_ones_own(word: str, near: str) -> None:
    """H800 was answered with "did you mean 'h200'", which it is not, and R9700 with the first twelve of 84 names."""
    told = (
        f"nothing with a source was read of it, and nearest to it is {near}; plan with its datasheet in a devices.toml"
    )
    for asked in (lambda: tl.plan.fit("8B", device=word), lambda: shipped().device(word.lower())):
        with pytest.raises(BadInput, match=re.escape(told)):
            asked()
    assert " " in near or shipped().device(near)


def test_a_device_of_ones_own_is_planned_from_end_to_end(tmp_path: Path) -> None:
    """By memory, bandwidth and rates of a datasheet, and a quote of 1 to 2 USD/h."""
    quote = PRICE.replace('"l4"', '"my-card"').replace('"purchase"', '"on-demand-hour"')
    own = folder_of(tmp_path, devices=MINE, prices=quote)
    served = {"device": "my-card", "devices": 2, "catalogue": own}
    fit = tl.plan.fit("70B", users=4, context="4K", precision="awq-int4-g128", **served)
    assert fit.fits is True
    # 90 % of 64 GB
    assert fit.answer.asked.usable.value == 0.9 * 64e9
    told = tl.plan.capacity("8B", users=8, prompt="1K", answer=256, **served).answer
    assert told.figure("tpot").number > 2 * 8.03e9 / (2 * 2e12), "no faster than two cards read the weights"
    found = tl.plan.choose(
        "8B", users=8, context="4K", training=30, train="lora", among_devices="my-card,L4", catalogue=own
    )
    mine = found.answer.inference.of("my-card")
    assert mine.offer.million.value is not None
    assert found.answer.training.of("my-card") is not None
    cost = tl.plan.cost(model="8B", users=1000, input_tokens=1024, output_tokens=256, **served)
    assert cost.answer.machine.hardware().number == pytest.approx(2 * 1.5)


def test_what_stands_there_from_memory_is_named_and_a_plan_says_so() -> None:
    whole = shipped()
    for one in (*whole.devices, *whole.links):
        assert "recalled" not in one.source or one.unverified, f"{one.name} is recalled, and does not say which cells"
    notes = tl.plan.fit("8B", device="rtx-3080-ti").notes
    assert [note.numbers["cells"] for note in notes if note.subject == "device-unverified"] == [
        "memory, bandwidth, power, rates"
    ]
    assert not any(note.subject == "device-unverified" for note in tl.plan.fit("8B", device="rtx-4090").notes)


def test_links_are_one_way() -> None:
    # NVIDIA says 900 GB/s of NVLink 4 in both directions, and PCIe 5.0 x16 has 63 GB/s each way.
    assert shipped().link("nvlink4").one_way_bytes_per_s == 450e9
    assert shipped().link("pcie5-x16").one_way_bytes_per_s == 63e9
    assert shipped().link("infiniband-ndr").one_way_bytes_per_s == 50e9


def test_what_large_products_reach_is_below_the_datasheet() -> None:
    shares = {
        device.name: reached / rate
        for device in shipped().devices
        if (reached := device.achieved("bf16")) and (rate := device.rate("bf16"))
    }
    assert len(shares) >= 12
    assert all(0.45 < share < 1.0 for share in shares.values())
    assert shares["mi300x"] == pytest.approx(0.51, abs=0.01)


def test_a_device_of_ones_own_is_planned_with_and_wins_over_the_shipped_one(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, devices=MINE + MINE.replace("my-card", "l4"))
    whole = catalogue_of(folder)
    assert whole.device("my-card").bandwidth_bytes_per_s == 2e12
    assert whole.device("l4").memory_bytes == 64_000_000_000
    assert whole.own == {"my-card", "l4"}
    assert any(row["device"] == "my-card" for row in tl.list("devices", catalogue=folder))
    assert tl.plan.fit("8B", device="my-card", catalogue=folder).fits


def test_prices_of_ones_own_take_the_place_of_shipped_ones_to_the_cent(tmp_path: Path) -> None:
    text = PRICE.replace("purchase", "cloud-hour").replace("low = 1", "low = 0.10").replace("high = 2", "high = 1")
    (price,) = catalogue_of(folder_of(tmp_path, prices=text)).prices_of("l4")
    assert (price.low, price.high) == (Decimal("0.10"), Decimal(1))


@pytest.mark.parametrize(
    ("files", "says"),
    [
        ({"devices": MINE.replace("vendor", "vendr")}, "device 'my-card' in devices.toml: unknown field 'vendr'"),
        ({"devices": MINE.replace("64_000_000_000", "64")}, "64 is no memory"),
        ({"devices": MINE.replace('"nvlink4"', '"nvlink44"')}, "did you mean 'nvlink4'"),
        ({"devices": MINE.replace("2_000_000_000_000", "inf")}, "bandwidth_bytes_per_s"),
        ({"devices": "device = 3"}, "tables named"),
        ({"devices": "[[devices]]\n"}, "tables named"),
        ({"devices": "[[device"}, "cannot be read"),
        (
            {"links": '[[link]]\nname = "a"\nkind = "device"\ntopology = "switch"\nsource = "x"\n'},
            "one_way_bytes_per_s",
        ),
        ({"prices": PRICE.replace("low = 1", "low = -1")}, "low"),
        ({"prices": PRICE.replace("low = 1", "low = 3")}, "above high"),
        ({"prices": PRICE.replace("low = 1", "low = nan")}, "low"),
        ({"prices": PRICE.replace('"l4"', '"l44"')}, "no device 'l44'"),
        ({"prices": PRICE.replace("2026-11-01", "2026-13-01")}, "month"),
    ],
)
def test_a_bad_file_is_one_sentence_that_says_where(tmp_path: Path, files: dict[str, str], says: str) -> None:
    with pytest.raises(BadInput) as caught:
        catalogue_of(folder_of(tmp_path, **files))
    assert says in str(caught.value)
    assert caught.value.code == "TL232"


def test_a_folder_that_is_not_there_is_said_and_the_environment_names_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(BadInput, match="no catalogue folder"):
        catalogue_of(tmp_path / "none")
    monkeypatch.delenv("TWINLENS_CATALOGUE", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert catalogue_folder() is None
    (tmp_path / "twinlens").mkdir()
    assert catalogue_folder() == tmp_path / "twinlens"
    monkeypatch.setenv("TWINLENS_CATALOGUE", str(tmp_path))
    assert catalogue_folder() == tmp_path
    assert catalogue_folder("elsewhere") == Path("elsewhere")


def test_a_spoilt_file_gives_a_catalogue_or_one_sentence(tmp_path: Path) -> None:
    for seed in range(300):
        chance = random.Random(seed)
        text = list(MINE)
        for _ in range(chance.randrange(1, 6)):
            text[chance.randrange(len(text))] = chance.choice('"[]={}\n0x-._eé\0 ')
        (tmp_path / "devices.toml").write_text("".join(text))
        with contextlib.suppress(BadInput):
            assert catalogue_of(tmp_path).devices, seed
