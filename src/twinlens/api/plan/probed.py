"""The device "this": from a probe in a file, else by probing this machine now."""

from __future__ import annotations

from pathlib import Path

from twinlens.errors import BadInput
from twinlens.planning.probed import probed_device
from twinlens.record.codec import encode
from twinlens.spec.device import Device
from twinlens.system.document import read_json

THIS = "this"
_MOST_BYTES = 16 * 2**20


def this_device(file: str | Path | None = None) -> Device:
    """The device of a probe. Raises BadInput (TL231) for a file that holds none."""
    if file is None:
        from twinlens.measurement.machine.probe import probe  # what measures is not read to plan for other machines

        return probed_device(encode(probe("auto")))
    path = Path(file).expanduser()
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise BadInput(f"{path.name} is too large for a probe", code="TL231")
        data = read_json(path)
    except (OSError, ValueError) as wrong:
        raise BadInput(f"--probe {path.name!r} cannot be read as JSON ({wrong})", code="TL231") from None
    return probed_device(data if isinstance(data, dict) else {})
