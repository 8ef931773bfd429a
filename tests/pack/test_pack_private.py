"""What is covered in a pack: names of home folders and keys, in the forms that files have; and what is left alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinlens.pack.private import Cover, cover_of

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
    ("eyJhbGciOiJIUzI1.eyJzdWIiOiIxMjM.SflKxwRJSMeKKF2QT4", "eyJhbGciOiJIUzI1"),
]
HARMLESS = [
    '{"api_key_env": "OPENAI_API_KEY", "tokens": 512, "max_tokens": 16}',
    "16 users/32K tokens, home of the brave, rooted/root-cause",
    "a secret which a bearer of news told", "https://host/v1/chat/completions", '{"password": null}',
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


@given(st.binary(max_size=300), st.sampled_from([text.encode() for text, _ in PRIVATE]))
def test_covering_twice_is_covering_once(noise: bytes, private: bytes) -> None:
    once, _ = Cover().covered(noise + b" " + private + b" " + noise)
    assert Cover().covered(once) == (once, 0)
