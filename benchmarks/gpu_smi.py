"""What nvidia-smi says of the GPU."""

from __future__ import annotations

import re
import subprocess


def smi(field: str) -> str | None:
    try:
        done = subprocess.run(["nvidia-smi", f"--query-gpu={field}", "--format=csv,noheader", "-i", "0"],
                              capture_output=True, text=True, timeout=20)  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None


def mig() -> str:
    said = (smi("mig.mode.current") or "").lower()
    return "on" if said.startswith("enabled") else "off"


def tdp_w() -> float | None:
    said = re.match(r"[\d.]+", smi("power.limit") or "")
    return float(said[0]) if said else None
