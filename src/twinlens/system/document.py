"""Documents from outside: JSON and TOML, read from regular files only, bounded in bytes, depth and digits.

No other module parses either (`tests/test_layers.py`), but for those that read single lines as they arrive.
"""

from __future__ import annotations

import errno
import json
import os
import stat
import tomllib
from collections.abc import Callable, Iterable
from decimal import Decimal
from pathlib import Path
from typing import Any

MOST_BYTES = 64 * 2**20
MOST_DEPTH = 100
"""Tables and lists inside each other: the deepest of ours has nine."""
MOST_DIGITS = 100
"""Of a whole number, and of the exponent of an exact one: a float holds 308, a byte count 19."""


class Unreadable(ValueError):
    """A document beyond a bound; `str()` is a clause that says which."""


def read_json(path: Path, most_bytes: int = MOST_BYTES) -> Any:
    """The JSON of a file. Raises OSError, and ValueError (`Unreadable`, of a decoder) for what is none."""
    return json_of(read_text(path, most_bytes))


def read_toml(path: Path, most_bytes: int = MOST_BYTES, parse_float: Callable[[str], Any] = float) -> dict[str, Any]:
    """The TOML of a file. Raises as `read_json` does."""
    return toml_of(read_text(path, most_bytes), parse_float)


def json_of(text: str) -> Any:
    """JSON within the bounds. Raises ValueError."""
    return _bounded(json.loads, text)


def strict_json_of(text: str) -> Any:
    """JSON within the bounds, as its standard has it: no field twice in an object, no NaN. Raises ValueError."""
    return _bounded(_strictly, text)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise Unreadable("a field stands twice in one object")
    return found


def _no_number(word: str) -> float:
    raise Unreadable(f"{word} is no number of JSON")


_strictly = json.JSONDecoder(object_pairs_hook=_once, parse_constant=_no_number).decode


def toml_of(text: str, parse_float: Callable[[str], Any] = float) -> dict[str, Any]:
    """TOML within the bounds. Raises ValueError."""
    table: dict[str, Any] = _bounded(lambda each: tomllib.loads(each, parse_float=parse_float), text)
    return table


def toml_value(word: str) -> Any:
    """A value as TOML writes it, else the word itself: `8`, `"8"`, `[1, 2]`, `bf16`. Raises Unreadable."""
    try:
        return toml_of(f"value = {word}")["value"]
    except tomllib.TOMLDecodeError:
        return word


def read_text(path: Path, most_bytes: int = MOST_BYTES) -> str:
    """The text of a file in UTF-8. Raises OSError and ValueError."""
    return read_bytes(path, most_bytes).decode("utf-8")


def read_bytes(path: Path, most_bytes: int = MOST_BYTES) -> bytes:
    """The bytes of a regular file; a pipe or a device, which may never end, is refused (OSError) and not waited for.

    Raises Unreadable for more than `most_bytes`.
    """
    with open(path, "rb", opener=_opened) as file:
        size = os.fstat(file.fileno()).st_size  # as much room as that is made, and not as much as is allowed
        data = file.read(min(size, most_bytes) + 1)
    if len(data) > most_bytes:
        raise Unreadable(f"it is larger than {most_bytes / 2**20:g} MiB")
    return data


def refuse_irregular(path: Path) -> None:
    """Raises OSError where a path that is there is a pipe, a device or a folder."""
    mode = os.stat(path).st_mode
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "it is no regular file", str(path))


def _opened(path: str, flags: int) -> int:
    refuse_irregular(Path(path))
    return os.open(path, flags | os.O_NONBLOCK)  # a pipe that took its place meanwhile does not block


def _bounded(parse: Callable[[str], Any], text: str) -> Any:
    try:
        value = parse(text)
    except RecursionError:
        raise Unreadable(f"it is nested deeper than {MOST_DEPTH} levels") from None
    except (json.JSONDecodeError, tomllib.TOMLDecodeError, Unreadable):
        raise
    except ValueError:  # of int(), at 4,300 digits
        raise Unreadable(f"it has a number of more than {MOST_DIGITS} digits") from None
    _refuse_beyond(value)
    if "\\ud" in text.lower():
        _refuse_halves(value)
    return value


def _refuse_halves(value: Any) -> None:
    """Raises Unreadable where an escape stands for half a character, which no file and no terminal takes."""
    try:
        json.dumps(value, ensure_ascii=False, default=str).encode()
    except UnicodeEncodeError:
        raise Unreadable("it has half a character (a lone surrogate)") from None


def _refuse_beyond(value: Any) -> None:
    level = [value]
    for _ in range(MOST_DEPTH):
        items = [item for each in level for item in _items(each)]
        if any(_is_long(item) for item in items if type(item) in (int, Decimal)):
            raise Unreadable(f"it has a number of more than {MOST_DIGITS} digits")
        level = [item for item in items if isinstance(item, dict | list)]
        if not level:
            return
    raise Unreadable(f"it is nested deeper than {MOST_DEPTH} levels")


def _items(value: Any) -> Iterable[Any]:
    return value.values() if isinstance(value, dict) else value if isinstance(value, list) else (value,)


def _is_long(number: int | Decimal) -> bool:
    if isinstance(number, int):
        return not -_MOST < number < _MOST
    return number.is_finite() and abs(number.adjusted()) > MOST_DIGITS


_MOST = 10**MOST_DIGITS
