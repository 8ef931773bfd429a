"""The last answers of a pure function, kept by what it was asked: a slider moves one word, and the rest stays.

`functools.lru_cache` asks for arguments with a hash, and questions of planning hold plain data.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


def keeps(most: int) -> Callable[[F], F]:
    """Keep the last `most` answers of a pure function of positional, frozen values that compare by what they hold."""

    def around(function: F) -> F:
        kept: deque[tuple[tuple[Any, ...], Any]] = deque(maxlen=most)

        @wraps(function)
        def asked(*words: Any) -> Any:
            for known, answer in tuple(kept):  # a copy, since threads of other pages ask as well
                if known == words:
                    return answer
            answer = function(*words)
            kept.append((words, answer))
            return answer

        return asked  # type: ignore[return-value]

    return around
