"""Signatures by `ssh-keygen -Y`: its keys, its passphrases and its agent. A private key is never read here."""

from __future__ import annotations

import re
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from twinlens.errors import BadInput

NAMESPACE = "twinlens-evidence"
UNSIGNED = "TL241"
_KEY = re.compile(r"with (?P<kind>\S+) key (?P<print>SHA256:\S+)")
_WAIT_S = 300  # a passphrase is typed meanwhile


@dataclass(frozen=True, slots=True)
class Signed:
    """`is_good`: whether the signature is one of these bytes. `key`: kind and fingerprint of the key that made it.

    `signer`: whose it is by a file of allowed signers; None where none was given, or where it is in none.
    """

    is_good: bool
    key: str = ""
    signer: str | None = None


def sign(data: bytes, key: Path) -> bytes:
    """The signature of `data` by the key file that the user named (or the public half of one that an agent holds).

    Raises BadInput (TL241) where there is no such file, no ssh-keygen, or where it refuses.
    """
    if not key.is_file():
        raise BadInput(
            f"there is no key file {str(key)!r}; make one with `ssh-keygen -t ed25519 -f FILE`, or name yours",
            code=UNSIGNED,
        )
    done = _ssh_keygen("sign", "-f", str(key), data=data)
    if done.returncode or not done.stdout.startswith(b"-----BEGIN SSH SIGNATURE-----"):
        raise BadInput(f"ssh-keygen did not sign with {key}: {_said(done)}", code=UNSIGNED)
    return done.stdout


def check_signature(data: bytes, signature: bytes, signers: Path | None = None) -> Signed:
    """Whether `signature` is one of `data`, by which key, and by `signers` (ssh's allowed_signers) of whom.

    Raises BadInput (TL241) where there is no ssh-keygen, or no such file of signers.
    """
    if signers is not None and not signers.is_file():
        raise BadInput(f"there is no file of allowed signers {str(signers)!r}", code=UNSIGNED)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "signature"
        place.write_bytes(signature)
        done = _ssh_keygen("check-novalidate", "-s", str(place), data=data)
        key = _KEY.search(done.stdout.decode("utf-8", "replace"))
        if done.returncode or key is None:
            return Signed(False)
        named = f"{key['kind']} {key['print']}"
        return Signed(True, named, _signer(data, place, signers) if signers is not None else None)


def _signer(data: bytes, signature: Path, signers: Path) -> str | None:
    """The first name that the file of signers gives the key, where ssh-keygen accepts the signature as theirs."""
    found = _ssh_keygen("find-principals", "-s", str(signature), "-f", str(signers), data=b"")
    names = found.stdout.decode("utf-8", "replace").splitlines()
    for name in names if not found.returncode else ():
        done = _ssh_keygen("verify", "-f", str(signers), "-I", name, "-s", str(signature), data=data)
        if not done.returncode:
            return name
    return None


def _ssh_keygen(verb: str, *words: str, data: bytes) -> subprocess.CompletedProcess[bytes]:
    space = () if verb == "find-principals" else ("-n", NAMESPACE)
    try:
        return subprocess.run(
            ["ssh-keygen", "-Y", verb, *space, *words], input=data, capture_output=True, timeout=_WAIT_S, check=False
        )
    except FileNotFoundError:
        raise BadInput("signatures need ssh-keygen (OpenSSH 8.2 or newer), which is not here", code=UNSIGNED) from None
    except subprocess.TimeoutExpired:
        raise BadInput(f"ssh-keygen did not answer within {_WAIT_S} s", code=UNSIGNED) from None


def _said(done: subprocess.CompletedProcess[bytes]) -> str:
    lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
    return lines[-1][:200] if lines else "it did not say why"
