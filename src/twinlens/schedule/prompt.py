"""Prompts as text, without a tokenizer: about as many tokens as asked for, and the server's `usage` tells the truth.

A prompt is cut from streams of words, one stream per seed: a longer cut of the same stream begins with the shorter one,
which makes the reuse of prefixes exact, and different seeds share nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import numpy as np

from twinlens.errors import BadInput
from twinlens.schedule.request import ScheduledRequest
from twinlens.schedule.trace_file import BLOCK_TOKENS
from twinlens.spec.workload.prompt import PromptFile, Prompts

_PREFIX, _BLOCK = 2, 3  # the second number of a stream's seed; a request's own has 0 or 1
_OPENING = 4  # synthetic words before a passage of a file, so that two passages never begin alike


class Words(Protocol):
    """Endless words, a stream per seed."""

    def cut(self, seed: tuple[int, ...], tokens: int, skip: int = 0) -> str:
        """The words of a stream worth about `tokens` tokens, after those worth `skip`."""
        ...


def words_of(prompts: Prompts) -> Words:
    """Where a workload's words come from. Raises BadInput (TL213) where its file cannot be read or is empty."""
    if isinstance(prompts, PromptFile):
        return FileWords(Path(prompts.path), prompts.tokens_per_word)
    return SyntheticWords(prompts.tokens_per_word)


def prompt_text(scheduled: ScheduledRequest, words: Words) -> str:
    """The whole prompt of a request in one piece, for an API that takes text."""
    return " ".join(
        part for part in (*_shared(scheduled, words), words.cut(scheduled.seed, _own_tokens(scheduled))) if part
    )


def messages(scheduled: ScheduledRequest, words: Words, answers: Sequence[str] = ()) -> list[dict[str, str]]:
    """The prompt as chat messages: the shared prefix as "system", then what was said in turns.

    Earlier answers are words of the session's own stream, so that every server gets the same prompt; `answers`, one
    per earlier turn, puts what the server really said in their place, which its cache may still hold.
    """
    shared = " ".join(_shared(scheduled, words))
    turns = scheduled.history or (_own_tokens(scheduled),)
    chat = [{"role": "system", "content": shared}] if shared else []
    skip = 0
    for i, tokens in enumerate(turns):
        is_answer = i % 2 == 1
        content = answers[i // 2] if is_answer and i // 2 < len(answers) else words.cut(scheduled.seed, tokens, skip)
        if content:
            chat.append({"role": "assistant" if is_answer else "user", "content": content})
        skip += tokens
    return chat


def _shared(scheduled: ScheduledRequest, words: Words) -> list[str]:
    """The opening of a request that others may share: its prefix and the blocks of its trace."""
    run = scheduled.seed[0]
    parts = []
    if scheduled.prefix_id is not None and scheduled.prefix_tokens:
        parts.append(words.cut((run, _PREFIX, scheduled.prefix_id), scheduled.prefix_tokens))
    for i, block in enumerate(scheduled.blocks):
        left = scheduled.input_tokens - scheduled.prefix_tokens - i * BLOCK_TOKENS
        parts.append(words.cut((run, _BLOCK, block), min(BLOCK_TOKENS, left)))
    return parts


def _own_tokens(scheduled: ScheduledRequest) -> int:
    return max(0, scheduled.input_tokens - scheduled.prefix_tokens - len(scheduled.blocks) * BLOCK_TOKENS)


class SyntheticWords:
    """Words drawn uniformly from a list of common ones: about 9 bits each, and nothing for a cache to recognise."""

    def __init__(self, tokens_per_word: float = 1.0) -> None:
        self._tokens_per_word = tokens_per_word

    def cut(self, seed: tuple[int, ...], tokens: int, skip: int = 0) -> str:
        first, last = (round(n / self._tokens_per_word) for n in (skip, skip + tokens))
        return " ".join(_synthetic(seed, last)[first:])


class FileWords:
    """Passages of a text file, each from a place that the seed decides, going on from its beginning at its end."""

    def __init__(self, path: Path, tokens_per_word: float = 1.3) -> None:
        try:
            self._words = path.read_text(encoding="utf-8").split()
        except (OSError, UnicodeDecodeError) as error:
            raise BadInput(f"cannot read the prompts {str(path)!r}: {error}", code="TL213") from None
        if not self._words:
            raise BadInput(f"the prompts {str(path)!r} hold no words", code="TL213")
        self._tokens_per_word = tokens_per_word

    def cut(self, seed: tuple[int, ...], tokens: int, skip: int = 0) -> str:
        first, last = (round(n / self._tokens_per_word) for n in (skip, skip + tokens))
        opening = _synthetic(seed, _OPENING)
        place = int.from_bytes(_stream(seed, 2 * _OPENING + 8)[-8:], "little") % len(self._words)
        wanted = range(first, last)
        return " ".join(
            opening[i] if i < _OPENING else self._words[(place + i - _OPENING) % len(self._words)] for i in wanted
        )


def _synthetic(seed: tuple[int, ...], count: int) -> list[str]:
    if count <= 0:
        return []
    drawn = np.frombuffer(_stream(seed, 2 * count), dtype="<u2") % len(WORDS)
    return [WORDS[i] for i in drawn.tolist()]


def _stream(seed: tuple[int, ...], size: int) -> bytes:
    """So many bytes that the seed decides. A longer stream begins with the shorter one; no library changes it."""
    return hashlib.shake_128(repr(seed).encode()).digest(size)


# 512 common English words: with the space before them, one token each in nearly every byte-level BPE vocabulary.

_TEXT = """
the of and to in is that for it as was with be by on not he his but at are this have from or had an they which you
one we all were her she there would their him been has when who will more no if out so what up its about into than
them can only other new some could time these two may then do first any my now such like our over man me even most
made after also did many before must through back years where much your way well down should because each just those
people how too little state good very make world still own see men work long get here between both life being under
never day same another know while last might us great old year off come since against go came right used take three
states himself few house use during without again place ocean around however home small found thought went say part
once general high upon school every does got united left number course train until always away something fact though
water less public put think almost hand enough far took head yet government system better set told nothing night end
why called eyes find going look asked later knew point next program city business give group toward young days let
room president side social given present several order national possible rather second face per among form important
often things looked early white case large big need best four within felt along children saw church ever least power
development light thing seemed family interest want members mind country area others done turned although open
service certain kind problem began different door thus help means sense whole matter line law action human free
local century history act half question body together level value book company past run taken having already words
feel silver garden money change show office making word study party feet art age table music car air real cost land
stand field full figure true father mother sound force support center surface longer strong short major moment clear
common reason idea able street market total main position private hard month simple close class record job red view
bridge hope deep paper girl boy color plan south north west east game letter space size moving hour doing rate sent
read special heart type nature growth board care island hold outside trade peace list answer fire ground union ready
bring stage living black single top data final basic production effect natural direct evidence return evening
morning fall summer winter spring window horse stone river road green blue hair glass wall floor ship tree food bed
bank test love leave play move speak turn walk talk keep hear stop start live meet pay lead learn write draw build
grow send wait watch follow reach remain allow add spend raise pass sell require report decide pull break cut rest
serve join save worth wide dark bad cold hot low poor rich safe warm soft fast late near nice easy happy gold sure
"""

WORDS = tuple(_TEXT.split())
