"""Zip files of anybody: names that lead elsewhere, links, bombs, damage; none of it reaches the disk."""

from __future__ import annotations

import stat
import zipfile
from pathlib import Path

import pytest

from twinlens.errors import BadInput
from twinlens.pack import archive
from twinlens.pack.archive import Archive, Damaged, is_safe, safe_part, write_archive

HOSTILE = [
    "../x", "a/../../x", "/etc/passwd", "C:/x", "a\\b", "..\\x", ".ssh/id", "a//b", "a/./b", "a/", "", "-o", "a\nb",
    "ä", "a b",
]  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_a_name_that_leads_elsewhere_is_not_safe(name: str) -> None:
    assert not is_safe(name)


@pytest.mark.parametrize("name", [name for name in HOSTILE if name])
def test_a_pack_with_such_a_name_is_refused_by_name(tmp_path: Path, name: str) -> None:
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w") as file:
        entry = zipfile.ZipInfo("x")
        entry.filename = name
        file.writestr(entry, b"x")
    with pytest.raises(BadInput, match=r"leads out of it|no zip file"):
        Archive(path)


def test_whatever_a_folder_is_called_its_part_of_a_name_is_safe() -> None:
    assert all(is_safe(safe_part(name)) for name in HOSTILE)
    assert safe_part("2026-11-22T093721Z_small_ac77") == "2026-11-22T093721Z_small_ac77"


def test_a_link_and_a_name_that_stands_twice_are_refused(tmp_path: Path) -> None:
    link, twice = tmp_path / "link.zip", tmp_path / "twice.zip"
    with zipfile.ZipFile(link, "w") as file:
        entry = zipfile.ZipInfo("key")
        entry.external_attr = (stat.S_IFLNK | 0o777) << 16
        file.writestr(entry, b"/home/alice/.ssh/id_ed25519")
    with zipfile.ZipFile(twice, "w") as file:
        file.writestr("x", b"1")
        with pytest.warns(UserWarning, match="Duplicate"):
            file.writestr("x", b"2")
    with pytest.raises(BadInput, match="a link"):
        Archive(link)
    with pytest.raises(BadInput, match="twice"):
        Archive(twice)


def test_content_beyond_the_limit_is_refused_by_what_comes_and_not_by_what_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive, "MOST_BYTES", 1000)
    path = tmp_path / "bomb.zip"
    write_archive(path, {"a": b"\0" * 5000})
    with Archive(path) as file, pytest.raises(BadInput, match="holds more than"):
        list(file.pieces("a"))


@pytest.mark.parametrize("data", [b"", b"PK\x03\x04 no zip", b"\0" * 100])
def test_what_is_no_zip_file_is_refused_in_a_sentence(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "x.zip"
    path.write_bytes(data)
    with pytest.raises(BadInput, match="no zip file"):
        Archive(path)
    with pytest.raises(BadInput, match="no file"):
        Archive(tmp_path / "none.zip")


def test_a_file_that_was_damaged_is_named_damaged(tmp_path: Path) -> None:
    path = tmp_path / "x.zip"
    write_archive(path, {"a": bytes(range(256)) * 40})
    data = bytearray(path.read_bytes())
    data[60] ^= 0xFF
    path.write_bytes(data)
    with Archive(path) as file, pytest.raises(Damaged):
        list(file.pieces("a"))


@pytest.mark.parametrize("front", [b"#!/bin/sh\nrm -rf x\n", b"\x7fELF"])
def test_foreign_bytes_before_the_first_file_are_refused(tmp_path: Path, front: bytes) -> None:
    path = tmp_path / "x.zip"
    write_archive(path, {"a": b"1"})
    path.write_bytes(front + path.read_bytes())
    with pytest.raises(BadInput, match="foreign bytes stand before"):
        Archive(path)


def test_a_comment_behind_the_last_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.zip"
    write_archive(path, {"a": b"1"})
    with zipfile.ZipFile(path, "a") as file:
        file.comment = b"anything"
    with pytest.raises(BadInput, match="foreign bytes stand behind"):
        Archive(path)


def test_bytes_behind_the_end_that_are_no_comment_are_refused(tmp_path: Path) -> None:
    write_archive(tmp_path / "x.zip", {"x": b"1"})
    with (tmp_path / "x.zip").open("ab") as file:
        file.write(b"<script>")
    with pytest.raises(BadInput, match="foreign bytes stand behind"):
        Archive(tmp_path / "x.zip")
