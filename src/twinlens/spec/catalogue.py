"""The catalogue: devices, links and prices that are shipped, and a user's own on top of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import ValidationError

from twinlens.errors import BadInput, nearest
from twinlens.spec.device import Device, Link, device_from, list_devices, load_device, no_device
from twinlens.system.document import read_text, toml_of

if TYPE_CHECKING:
    from twinlens.spec.money import Price

UNUSABLE = "TL232"
_MOST_BYTES = 4 * 2**20
_FILES = {"device": "devices.toml", "link": "links.toml", "price": "prices.toml"}
Entry = TypeVar("Entry", Device, Link, "Price")
Named = TypeVar("Named", Device, Link)


@dataclass(frozen=True, slots=True)
class Catalogue:
    """Everything by name, a user's own in place of what is shipped. `folder`: where that lies, None without one."""

    devices: tuple[Device, ...]
    links: tuple[Link, ...]
    folder: Path | None = None
    own: frozenset[str] = frozenset()
    """Names of devices that are the user's."""
    own_prices: tuple[Price, ...] = ()

    def device(self, name: str) -> Device:
        """Raises BadInput (TL204) with the nearest name."""
        found = next((each for each in self.devices if each.name == name), None)
        if found is None:
            names = [each.name for each in self.devices]
            begun = [each for each in names if name and each.startswith(name.lower())]
            if not begun:
                raise no_device(name, names)
            guess = f"did you mean {' or '.join(begun[:4])}?"
            raise BadInput(f"no device {name[:60]!r} in the catalogue; {guess}", code="TL204")
        return found

    def link(self, name: str) -> Link:
        """Raises BadInput (TL204) with the nearest name."""
        found = next((each for each in self.links if each.name == name), None)
        if found is None:
            raise BadInput(f"no link {name[:60]!r}; {nearest(name, [each.name for each in self.links])}", code="TL204")
        return found

    def link_of(self, device: Device) -> Link | None:
        """What joins devices of this kind: their own link, else their bus; None where neither is known."""
        name = device.link or device.bus
        return self.link(name) if name else None

    def network_of(self, device: Device) -> Link:
        """What joins machines with such devices, a port for each: 400 Gbit/s, and 200 of generations before 2022."""
        return self.link("infiniband-hdr" if (device.year or 2023) < 2022 else "infiniband-ndr")

    def link_among(self, device: Device, devices: int) -> Link | None:
        """The slowest link in a ring over so many devices: their own in a domain, the bus in a machine of up to eight,
        the network between machines. None where it is not known."""
        if devices <= max(device.domain, 1) or (devices <= 8 and device.bus is None):
            return self.link_of(device)
        bus = self.link(device.bus) if device.bus else None
        if devices <= 8:
            return bus
        known = [self.network_of(device), *([bus] if bus and device.domain < 8 else [])]
        return min(known, key=lambda link: link.one_way_bytes_per_s)

    @property
    def prices(self) -> tuple[Price, ...]:
        """The user's own, and what is shipped of devices without one."""
        priced = {each.device for each in self.own_prices}
        return (*self.own_prices, *(each for each in _shipped_prices() if each.device not in priced))

    def prices_of(self, device: str) -> tuple[Price, ...]:
        """The user's own where there are some, else what is shipped; () where nobody quoted one."""
        return tuple(each for each in self.prices if each.device == device)

    @property
    def models_folder(self) -> Path | None:
        """Where a user's own model configs lie: NAME.json."""
        return self.folder / "models" if self.folder and (self.folder / "models").is_dir() else None


@lru_cache(maxsize=1)
def shipped() -> Catalogue:
    """The catalogue without anything of the user's."""
    return Catalogue(tuple(load_device(name) for name in list_devices()), shipped_links())


@lru_cache(maxsize=1)
def shipped_links() -> tuple[Link, ...]:
    """The links of the catalogue, without its devices."""
    return tuple(Link(**entry) for entry in _entries(_shipped_text("link"), "link"))


@lru_cache(maxsize=1)
def _shipped_prices() -> tuple[Price, ...]:
    from twinlens.spec.money import Price  # few verbs need prices

    return tuple(Price(**entry) for entry in _entries(_shipped_text("price"), "price"))


def catalogue_of(folder: Path | None) -> Catalogue:
    """The shipped catalogue with a user's folder on top: devices.toml, links.toml, prices.toml, models/NAME.json.

    Raises BadInput (TL232) for a folder that is not there, and for an entry that is wrong or cannot be.
    """
    base = shipped()
    if folder is None:
        return base
    if not folder.is_dir():
        raise BadInput(f"no catalogue folder {str(folder)!r}; make it, or leave --catalogue out", code=UNUSABLE)
    devices, links = _read(folder, "device", _device), _read(folder, "link", lambda entry: Link(**entry))
    from twinlens.spec.money import Price

    prices = _read(folder, "price", lambda entry: Price(**entry))
    whole = Catalogue(
        _over(base.devices, devices), _over(base.links, links), folder, frozenset(each.name for each in devices), prices
    )
    _names_exist(whole, folder)
    return whole


def _device(entry: dict[str, Any]) -> Device:
    from twinlens.spec.consistency import implausible  # it loads every model of a workload

    device = device_from(entry)
    wrong = next(implausible(device), None)
    if wrong:
        raise ValueError(wrong)
    return device


def _over(base: tuple[Named, ...], own: tuple[Named, ...]) -> tuple[Named, ...]:
    names = frozenset(each.name for each in own)
    kept: list[Named] = [each for each in base if each.name not in names]
    return tuple(kept) + own


def _names_exist(whole: Catalogue, folder: Path) -> None:
    """Raises BadInput (TL232) where a device names a link, or a price a device, that there is not."""
    links, devices = [each.name for each in whole.links], [each.name for each in whole.devices]
    asked = [(one.name, "link", name, links) for one in whole.devices for name in (one.link, one.bus) if name]
    asked += [("a price", "device", each.device, devices) for each in whole.prices]
    for where, kind, name, known in asked:
        if name not in known:
            raise BadInput(
                f"{where} in {str(folder)!r} names no {kind} {name!r}; {nearest(name, known)}", code=UNUSABLE
            )


def _read(folder: Path, kind: str, make: Callable[[dict[str, Any]], Entry]) -> tuple[Entry, ...]:
    path = folder / _FILES[kind]
    if not path.is_file():
        return ()
    found = []
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise BadInput(f"{path.name} is too large for a catalogue; keep it below 4 MB", code=UNUSABLE)
        entries = _entries(read_text(path), kind)
    except (OSError, ValueError) as wrong:
        raise BadInput(f"{path.name} in {str(folder)!r} cannot be read ({wrong})", code=UNUSABLE) from None
    for place, entry in enumerate(entries, start=1):
        where = f"{kind} {entry.get('name') or entry.get('device') or place!r} in {path.name}"
        try:
            found.append(make(entry))
        except ValidationError as wrong:
            raise BadInput(f"{where}: {_first(wrong)}", code=UNUSABLE) from None
        except (ValueError, TypeError) as wrong:
            raise BadInput(f"{where}: {wrong}", code=UNUSABLE) from None
    return tuple(found)


def _entries(text: str, kind: str) -> list[dict[str, Any]]:
    """Tables of one kind. Prices are read as exact decimals. Raises ValueError for what is none."""
    data = toml_of(text, parse_float=Decimal if kind == "price" else float)
    entries = data.pop(kind, [])
    if data or not isinstance(entries, list) or not all(isinstance(each, dict) for each in entries):
        raise ValueError(f"it holds tables named [[{kind}]] and nothing else")
    if kind == "price":
        return [
            {key: Decimal(value) if type(value) is int else value for key, value in each.items()} for each in entries
        ]
    return [{key: _as_float(key, value) for key, value in each.items()} for each in entries]


def _as_float(key: str, value: Any) -> Any:
    """Rates that were written as whole numbers; sizes and counts stay whole."""
    if isinstance(value, dict):
        return {inner: _as_float(f"{key}.{inner}", each) for inner, each in value.items()}
    wanted = key.endswith(("_per_s", "_w", "_times")) or "_per_s." in key
    return float(value) if type(value) is int and wanted else value


def _first(wrong: ValidationError) -> str:
    """The first wrong field, in a clause."""
    errors = sorted(wrong.errors(include_url=False), key=lambda each: each["type"] != "extra_forbidden")
    field = ".".join(map(str, errors[0]["loc"]))
    if errors[0]["type"] == "extra_forbidden":
        return f"unknown field {field!r}"
    if errors[0]["type"] == "missing":
        return f"field {field!r} is missing"
    message = errors[0]["msg"].removeprefix("Value error, ")
    return f"{field}: {message}" if field else message


def _shipped_text(kind: str) -> str:
    return (Path(__file__).parent / "catalog" / _FILES[kind]).read_text(encoding="utf-8")
