"""Claims on links: bandwidth one way, and the sum of both ways that makers of GPUs quote.

Per GPU and direction: NVLink 3, 4, 5 of NVIDIA's A100, H100 and Blackwell datasheets (600, 900, 1800 GB/s both ways
together); PCI Express of 16 lanes by its signalling rate (PCI-SIG), of which 128b/130b coding leaves 63.0 of 64 GB/s.
"""

from __future__ import annotations

from twinlens.claims.answer import Answer, Case, Gap, Term, remark
from twinlens.claims.names import DEVICES
from twinlens.claims.said import Claim

ONE_WAY = {"nvlink3": 300e9, "nvlink4": 450e9, "nvlink5": 900e9, "pcie3": 16e9, "pcie4": 32e9, "pcie5": 64e9}
_CODED = 128 / 130  # of PCI Express 3 to 5
_OF_DEVICE = {"a100": "nvlink3", "h100": "nvlink4", "h200": "nvlink4", "h20": "nvlink4", "gh200": "nvlink4",
              "b200": "nvlink5", "b300": "nvlink5"}  # fmt: skip


def link(claim: Claim) -> Answer | Gap | None:
    """ "NVLink 4 has 900 GB/s": both ways together, half of that each way."""
    name = claim.name("link")
    claimed = claim.one("bandwidth") if name else None
    if claimed is None or claim.all("rate") or claim.all("share"):
        return None
    device = claim.name("device")
    if name == "nvlink":
        found = next((each for word, each in _OF_DEVICE.items() if device in (word, DEVICES.get(word))), None)
        if found is None:
            return Gap("link", ("link-generation",))
        name = found
    if (name or "") not in ONE_WAY:
        return Gap("link", ("link-generation",))
    one, both = _cases(name or "", 1), _cases(name or "", 2)
    if "one-way" in claim.topics:
        low, high = claimed.range
        twice = (remark("both-ways"),) if any(low <= case.value <= high for case in both) else ()
        return Answer("link", "bytes/s", claimed, one, remarks=twice)
    if "both-ways" in claim.topics:
        return Answer("link", "bytes/s", claimed, both)
    return Answer("link", "bytes/s", claimed, (*one, *both), missing=("direction",))


def _cases(name: str, ways: int) -> tuple[Case, ...]:
    """Its bandwidth in one or both directions; of PCI Express as signalled, and as data after coding."""
    words = "one-way" if ways == 1 else "both-ways"
    terms = (Term("ways", ways, "1"), Term("one-way", ONE_WAY[name], "bytes/s"))
    plain = Case(ways * ONE_WAY[name], terms, "{0} × {1}", words)
    if not name.startswith("pcie"):
        return (plain,)
    coded = Case(plain.value * _CODED, (*terms, Term("coding", _CODED, "share")), "{0} × {1} × {2}", f"{words}-coded")
    return (plain, coded)
