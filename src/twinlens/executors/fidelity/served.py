"""Compare a server with its reference: by log probabilities where the server gives them, else by greedy answers."""

from __future__ import annotations

import hashlib
import json
import math
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any

import psutil

from twinlens.errors import ExecutorFailed
from twinlens.executors.fidelity.readings import (
    Answer,
    Scored,
    Unusable,
    choice_of,
    from_completion,
    from_input_logprobs,
    from_pieces,
    from_prompt_logprobs,
    generate_request,
    meta_info_of,
)
from twinlens.executors.in_process.torch_work import answer_of_torch
from twinlens.record.executor.facts import Compared, FidelityRow
from twinlens.record.foreign_text import in_one_line
from twinlens.system.document import read_json
from twinlens.system.home_folder import cache_folder
from twinlens.units import BYTES, show

Prompt = str | tuple[int, ...]
Post = Callable[[str, bytes], tuple[int, bytes, str]]
"""Sends a body to a page; the status, the body of what came, and the fault of an exchange that broke off."""
COMPLETIONS, GENERATE = "/completions", "/generate"
"""Pages: the first below /v1, the second SGLang's, beside it."""
TOP = 20
"""Tokens whose log probability is asked for at each position: the most that vLLM gives where nobody asked for more."""
_UNFIT = (400, 404, 405, 422, 501)


@dataclass(frozen=True, slots=True)
class Asked:
    """One server. `name`: for sentences. `model`: what its requests call the model."""

    name: str
    model: str
    post: Post

    def scores(self, prompts: Sequence[Prompt]) -> list[Scored]:
        """Log probabilities of each prompt: vLLM's, else SGLang's. Raises Unusable where none can be read."""
        try:
            return [self._score(prompt) for prompt in prompts]
        except Unusable:
            if (found := self._by_sglang(prompts)) is None:
                raise
            return found

    def answers(self, prompts: Sequence[str], most_tokens: int) -> list[Answer]:
        """A greedy answer to each prompt. Raises Unusable."""
        fields = {"max_tokens": most_tokens, "temperature": 0, "stream": False}
        return [from_completion(self._completed({"prompt": prompt, **fields}), most_tokens) for prompt in prompts]

    def _score(self, prompt: Prompt) -> Scored:
        ids = None if isinstance(prompt, str) else prompt
        fields = {"max_tokens": 1, "temperature": 0, "stream": False, "prompt_logprobs": TOP, "return_token_ids": True}
        said = self._completed({"prompt": prompt if ids is None else list(ids), **fields})
        return from_prompt_logprobs(choice_of(said), ids)

    def _by_sglang(self, prompts: Sequence[Prompt]) -> list[Scored] | None:
        """None where the server does not answer as SGLang does."""
        scored = []
        for prompt in prompts:
            try:
                meta = meta_info_of(self._said(GENERATE, generate_request(prompt, TOP)))
            except Unusable:
                meta = None
            if meta is None:
                return None
            scored.append(from_input_logprobs(meta, None if isinstance(prompt, str) else prompt))
        return scored

    def _completed(self, asked: dict[str, Any]) -> Any:
        return self._said(COMPLETIONS, {"model": self.model, **asked})

    def _said(self, page: str, asked: dict[str, Any]) -> Any:
        status, body, fault = self.post(page, json.dumps(asked).encode())
        if fault or status != 200:
            why = fault or f"HTTP {status}: {in_one_line(body.decode(errors='replace'), 120)}"
            raise Unusable(f"it refuses the request to {page} ({why})" if status in _UNFIT else why)
        try:
            return json.loads(body)
        except (ValueError, RecursionError):
            raise Unusable("its answer is no JSON") from None


Rows = tuple[FidelityRow, ...]


@dataclass(frozen=True, slots=True)
class Reference:
    """What a server is compared with. `name`: for sentences."""

    name: str
    scores: Callable[[Sequence[Prompt]], list[Scored]]
    answers: Callable[[Sequence[str], int], list[Answer]]


def served_fidelity(
    server: Asked, reference: Reference, prompts: Sequence[Prompt], texts: Sequence[str], most_tokens: int
) -> tuple[Rows, Compared]:
    """One row for each prompt, and how they were had; no rows and the reason where they could not be.

    `prompts`: for log probabilities; `texts`: for answers of at most so many tokens. The server is asked first: a
    reference takes longer.
    """
    try:
        try:
            scored, seen = True, server.scores(prompts)
            expected = reference.scores(prompts)
        except Unusable as wrong:
            scored, why_not = False, str(wrong)
        if scored:
            rows = tuple(of_scored(one, other) for one, other in zip(expected, seen, strict=True))
            return rows, Compared("log-probabilities", reference.name, _digest(prompts))
        rows = _by_answers(server, reference, texts, most_tokens)
    except Unusable as wrong:
        return (), Compared("none", reference.name, reason=str(wrong))
    return rows, Compared("answers", reference.name, _digest(texts), instead=why_not)


def _by_answers(server: Asked, reference: Reference, texts: Sequence[str], most_tokens: int) -> Rows:
    seen = server.answers(texts, most_tokens)
    expected = reference.answers(texts, most_tokens)
    for one, other in zip(expected, seen, strict=True):
        if None not in (one.prompt_tokens, other.prompt_tokens) and one.prompt_tokens != other.prompt_tokens:
            raise Unusable(
                f"the server reads a prompt as {other.prompt_tokens} tokens, and its reference as {one.prompt_tokens}"
            )
    rows = tuple(of_answers(one, other) for one, other in zip(expected, seen, strict=True))
    if not any(row.tokens for row in rows):
        raise Unusable("neither the server nor its reference answers with a token")
    return rows


def _digest(prompts: Sequence[Prompt]) -> str:
    return hashlib.sha256(repr(list(prompts)).encode()).hexdigest()[:12]


# Distance of what a server said from its reference: counts and sums of one prompt.

_LEAST = 1e-9


def of_scored(reference: Scored, seen: Scored) -> FidelityRow:
    """The row of one prompt that both read. Raises Unusable where the two read other tokens."""
    if reference.tokens != seen.tokens:
        raise Unusable("the server and its reference cut a prompt into other tokens")
    pairs = list(zip(reference.places, seen.places, strict=True))
    tokens = reference.tokens[1:]
    return FidelityRow(
        tokens=len(pairs),
        agreed=sum(_first(one) == _first(other) for one, other in pairs),
        kl_nats=None,
        nll_nats=-sum(place[token] for place, token in zip(seen.places, tokens, strict=True)),
        reference_nll_nats=-sum(place[token] for place, token in zip(reference.places, tokens, strict=True)),
        kl_top_nats=sum(_kl(one, other) for one, other in pairs),
    )


def of_answers(reference: Answer, seen: Answer) -> FidelityRow:
    """The row of one prompt that both answered: tokens up to the first difference, and that one where they part.

    What follows it answers another text. Where the limit cut either, nothing is known of what it would have said.
    """
    alike = _common(reference.text, seen.text)
    agreed = sum(1 for _ in takewhile(lambda end: end <= alike, reference.ends))
    if agreed == len(reference.ends):
        parts = not reference.cut and len(seen.text) > alike
    else:
        parts = not (seen.cut and len(seen.text) == alike)
    return FidelityRow(agreed + parts, agreed, None, 0.0, 0.0)


def _first(place: Mapping[int, float]) -> int:
    """The most likely token; of several as likely the one with the lowest id, as torch takes it."""
    return min(place, key=lambda token: (-place[token], token))


def _kl(reference: Mapping[int, float], seen: Mapping[int, float]) -> float:
    """KL(reference ‖ seen) over the tokens that both name, and all others as one: never above that over all tokens
    (the data processing inequality; Cover and Thomas 2006, theorem 2.8.1)."""
    shared = reference.keys() & seen.keys()
    divergence = sum(math.exp(reference[token]) * (reference[token] - seen[token]) for token in shared)
    rest, seen_rest = (max(0.0, 1 - sum(math.exp(each[token]) for token in shared)) for each in (reference, seen))
    if rest > _LEAST:
        divergence += rest * math.log(rest / max(seen_rest, _LEAST))
    return max(0.0, divergence)


def _common(first: str, second: str) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(first, second, strict=False)))


# The fp32 reference of a model folder, computed by torch in a process of its own and kept in the cache.

_FORMAT = 1  # of what is kept: another number, and all is computed again
_MOST_OF, _PATIENCE_S = 0.8, 1800.0


def scores_of(folder: Path, prompts: Sequence[Sequence[int]], top: int, threads: int) -> list[Scored]:
    """Log probabilities of prompts by the folder's weights in fp32. Raises Unusable."""
    told = _computed(folder, {"scores": [list(each) for each in prompts], "top": top}, threads)
    return [
        Scored(tuple(prompt), tuple({int(token): value for token, value in place} for place in places))
        for prompt, places in zip(prompts, told, strict=True)
    ]


def answers_of(folder: Path, prompts: Sequence[str], most_tokens: int, threads: int) -> list[Answer]:
    """Greedy answers by the folder's weights in fp32. Raises Unusable."""
    told = _computed(folder, {"answers": list(prompts), "most_tokens": most_tokens}, threads)
    return [from_pieces(each["beginnings"], cut=each["cut"], prompt_tokens=each["prompt_tokens"]) for each in told]


def _computed(folder: Path, asked: dict[str, Any], threads: int) -> list[Any]:
    """What the process said, or what it said before of the same weights and prompts."""
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        raise Unusable("the folder has no safetensors")
    stamps = [(file.name, file.stat().st_size, file.stat().st_mtime_ns) for file in files]
    identity = json.dumps([_FORMAT, str(folder), stamps, asked], sort_keys=True)
    kept = cache_folder() / "fidelity" / f"{hashlib.sha256(identity.encode()).hexdigest()[:24]}.json"
    with suppress(OSError, ValueError):
        known: list[Any] = read_json(kept)
        return known
    _refuse_large(folder, sum(size for _, size, _ in stamps))
    told = _asked(folder, asked, threads)
    with suppress(OSError):
        kept.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=kept.parent, delete=False, encoding="utf-8") as file:
            json.dump(told, file)
        Path(file.name).rename(kept)
    return told


def _refuse_large(folder: Path, stored: int) -> None:
    config = read_json(folder / "config.json")
    is_wide = "float32" in str(config.get("dtype", config.get("torch_dtype", "")))
    needed, free = stored * (1 if is_wide else 2), psutil.virtual_memory().available
    if needed > _MOST_OF * free:
        raise Unusable(
            f"the fp32 reference needs {show(float(needed), BYTES)} and this machine has {show(float(free), BYTES)} "
            "free; name a reference server in executor.options.reference"
        )


def _asked(folder: Path, asked: dict[str, Any], threads: int) -> list[Any]:
    order, failed = {"folder": str(folder), "threads": threads, **asked}, "the fp32 reference could not be computed"
    try:
        said = answer_of_torch(order, failed, _PATIENCE_S)
    except subprocess.TimeoutExpired:
        raise Unusable(f"the fp32 reference took more than {_PATIENCE_S:g} s") from None
    except ExecutorFailed as error:
        raise Unusable(str(error)) from None
    if isinstance(said, dict):
        raise Unusable(f"{failed}: {said['refused']}")
    told: list[Any] = said
    return told
