"""The page of dcgm-exporter as telemetry, over a real socket. The page was written by hand; see pages/README.md."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from metrics_server import Pages, pages

from material import for_rows, inference, measured
from twinlens.diagnosis.instrument import instruments_of
from twinlens.errors import BadInput
from twinlens.executors.openai.entry import target_of
from twinlens.measurement.server.dcgm import PERIOD_NS, Dcgm, boards_of
from twinlens.record.samples import COLUMNS

PAGE = Path(__file__).with_name("pages") / "dcgm.txt"
FIRST = "GPU-11111111-aaaa-4000-8000-000000000001"
SLICE = "GPU-11111111-aaaa-4000-8000-000000000002/7"


@pytest.fixture
def exporter() -> Iterator[Pages]:
    with pages({"/metrics": lambda: (200, PAGE.read_bytes())}) as served:
        yield served


def test_profiling_fields_become_columns_of_each_board_and_what_is_blank_is_left_out() -> None:
    boards = boards_of(PAGE.read_bytes())
    assert boards[FIRST] == {
        "sm_active": 0.87134,
        "tensor_active": 0.042118,
        "dram_active": 0.713502,
        "pcie_tx_bytes_per_s": 1204224,
    }
    assert boards[SLICE] == {"dram_active": 0.25}, "a slice is not its board"
    assert all(set(columns) <= set(COLUMNS) for columns in boards.values())


@pytest.mark.parametrize("value", ["NaN", "1.5", "-1"])
def test_a_share_that_is_none_is_left_out(value: str) -> None:
    assert boards_of(f'DCGM_FI_PROF_DRAM_ACTIVE{{UUID="GPU-1"}} {value}'.encode()) == {}


def test_rows_are_of_the_boards_of_the_run_and_a_second_apart(exporter: Pages) -> None:
    page = Dcgm(f"{exporter.origin}/metrics", [FIRST])
    (row,) = page.read(0)
    assert (row.source, row.dram_active, row.cpu_busy) == (f"dcgm:{FIRST}", 0.713502, None)
    assert page.read(PERIOD_NS - 1) == []
    assert len(page.read(PERIOD_NS)) == 1
    assert len(exporter.asked) == 2
    page.close()
    every = Dcgm(f"{exporter.origin}/metrics")
    assert {each.source.removeprefix("dcgm:") for each in every.read(0)} == set(boards_of(PAGE.read_bytes()))
    every.close()


def test_a_page_that_fails_later_gives_no_row_and_is_asked_again(exporter: Pages) -> None:
    page = Dcgm(f"{exporter.origin}/metrics")
    good = exporter.by_path["/metrics"]
    exporter.by_path["/metrics"] = lambda: (503, b"")
    assert page.read(0) == []
    assert page.reason == "the server has no metrics page (503)"
    exporter.by_path["/metrics"] = good
    assert page.read(2 * PERIOD_NS) == [], "not at once"
    assert page.read(20 * PERIOD_NS)
    assert page.reason is None
    page.close()


@pytest.mark.parametrize(
    ("answer", "says"),
    [((404, b""), "no metrics page \\(404\\)"), ((200, b"up 1\n"), "none of DCGM_FI_PROF_SM_ACTIVE")],
)
def test_a_page_that_is_none_is_refused_before_anything_is_measured(
    exporter: Pages, answer: tuple[int, bytes], says: str
) -> None:
    exporter.by_path["/metrics"] = lambda: answer
    with pytest.raises(BadInput, match=says) as refused:
        Dcgm(f"{exporter.origin}/metrics").refuse_no_page()
    assert refused.value.code == "TL207"


def test_an_address_that_is_none_is_one_sentence() -> None:
    with pytest.raises(BadInput, match=r"dcgm_url is the address of a page, \"http://HOST:9400/metrics\""):
        target_of("openai-http", {"url": "http://127.0.0.1:1/v1", "dcgm_url": "node-a:9400"})


def test_a_run_of_a_server_has_rows_of_its_boards_and_a_diagnosis_reads_them(tmp_path: Path, exporter: Pages) -> None:
    from twinlens.network.null_server import null_server

    with null_server() as server:
        options = {"url": server.url, "dcgm_url": f"{exporter.origin}/metrics", "metrics_url": "off"}
        run = measured(tmp_path, inference("openai-http", options=options, protocol=for_rows(30)))
    (dcgm,) = instruments_of(run.telemetry, 0.0, 1e9)
    assert dcgm.source == "DCGM"
    assert dcgm.values["tensor_active"].value == pytest.approx(0.042118)
