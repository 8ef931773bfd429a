"""What is covered in a pack: names of home folders and keys, in the forms that files have; and what is left alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinlens.pack.run_folder import Cover, cover_of

SUPERUSER = Path("/", "root")  # whose home is no folder of /home
PRIVATE = [
    ("/home/alice/models/llama", "alice"),
    ("file:///Users/björn/x", "björn"),
    (r'{"path": "C:\\Users\\Carol\\x"}', "Carol"),
    ("%2Fhome%2Fdave%2Fx", "dave"),
    (f"--model {SUPERUSER}/llama", "root"),
    ("key sk-proj-abcdefghijklmnop1234 here", "sk-proj-abcdefghijklmnop1234"),
    ("HF_TOKEN=hf_abcdefghijklmnopqrstuv", "hf_abcdefghijklmnopqrstuv"),
    ("Authorization: Bearer abcdefgh12345678", "abcdefgh12345678"),
    ('{"api_key": "swordfish"}', "swordfish"),
    (r'"{\"password\": \"swordfish\"}"', "swordfish"),
    ("vllm serve --api-key swordfish --port 1", "swordfish"),
    ('["--api-key", "swordfish"]', "swordfish"),
    ("password: swordfish", "swordfish"),
    ("http://me:swordfish@host/v1", "swordfish"),
    ("aws AKIAABCDEFGHIJKLMNOP", "AKIAABCDEFGHIJKLMNOP"),
    ("-----BEGIN OPENSSH PRIVATE KEY-----\nAAAAB3Nza\nxyz\n-----END OPENSSH PRIVATE KEY-----", "AAAAB3Nza"),
    (r'"-----BEGIN PRIVATE KEY-----\nMIIEvQ\nIBADAN\n-----END PRIVATE KEY-----\n"', "MIIEvQ"),
    (f"key=AIza{'Sy5' * 11}ab", f"AIza{'Sy5' * 11}ab"),
    ("stripe " + "sk_" + "live_4eC39HqLyjWDarjtT1", "4eC39HqLyjWDarjtT1"),
    ("whsec_abcdefghij0123456789", "abcdefghij0123456789"),
    ("//registry/:_authToken=npm_" + "a1B2" * 9, "npm_" + "a1B2" * 9),
    ("pypi-" + "AgEIcHlwaS5vcmc" * 4, "AgEIcHlwaS5vcmc"),
    ("dop_v1_" + "0f" * 32, "0f" * 32),
    ('{"private_key_id": "0123456789abcdef"}', "0123456789abcdef"),
    ("https://x.blob.core.windows.net/c?sv=2024&sig=abcDEF%2F0123456789%3D", "abcDEF%2F0123456789%3D"),
    ("asked by eve.mallory+x@lab.example.org today", "eve.mallory+x@lab.example.org"),
    ("http://192.168.17.5:8000/v1", "192.168.17"),
    ("http://10.0.3.77/v1", "10.0.3"),
    ("peer 172.31.9.4", "172.31.9"),
    ("eyJhbGciOiJIUzI1.eyJzdWIiOiIxMjM.SflKxwRJSMeKKF2QT4", "eyJhbGciOiJIUzI1"),
]
HARMLESS = [
    '{"api_key_env": "OPENAI_API_KEY", "tokens": 512, "max_tokens": 16}',
    "16 users/32K tokens, home of the brave, rooted/root-cause",
    "a secret which a bearer of news told", "https://host/v1/chat/completions", '{"password": null}',
    "http://127.0.0.1:8000/v1", "172.15.1.2", "cuDNN 9.10.2.21", "10.1.243", "10.1.2.3.4", "a@b.c", "sig=short",
    "tokens/s p50 1.55 (±26 %)", "https://github.com/a/b@v1",
]  # fmt: skip


@pytest.mark.parametrize(("text", "word"), PRIVATE)
def test_a_private_word_is_covered_and_the_length_stays(text: str, word: str) -> None:
    data = text.encode()
    covered, count = Cover().covered(data)
    assert word.encode() not in covered
    assert count >= 1
    assert len(covered) == len(data)


@pytest.mark.parametrize("text", HARMLESS)
def test_other_words_are_left_alone(text: str) -> None:
    assert Cover().covered(text.encode()) == (text.encode(), 0)


@pytest.mark.parametrize("text", [text for text, _ in PRIVATE if text.startswith(("{", "[", '"'))])
def test_json_stays_json(text: str) -> None:
    json.loads(text)
    json.loads(Cover().covered(text.encode())[0])


def test_words_of_this_machine_are_covered_wherever_they_stand() -> None:
    cover = cover_of("/data/people/eve/", ["hunter2hunter2", "abc"])
    assert cover.text("x/data/people/eve/y hunter2hunter2 abc") == f"x{'*' * 16}/y {'*' * 14} abc"
    assert cover_of("/", []).homes == ()


def test_servers_of_a_private_network_stay_apart_and_a_stated_contact_is_read() -> None:
    one, other = (cover_of("/", []).text(f"http://192.168.1.{last}:8000") for last in (5, 6))
    assert (one, other) == ("http://*********.5:8000", "http://*********.6:8000")
    assert cover_of("/", [], ["eve@lab.org"]).text("eve@lab.org, bob@lab.org") == "eve@lab.org, ***********"


@given(st.binary(max_size=300), st.sampled_from([text.encode() for text, _ in PRIVATE]))
def test_covering_twice_is_covering_once(noise: bytes, private: bytes) -> None:
    once, _ = Cover().covered(noise + b" " + private + b" " + noise)
    assert Cover().covered(once) == (once, 0)
