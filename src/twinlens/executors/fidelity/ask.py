"""Ask a server for log probabilities of prompts, or for greedy answers to them, one at a time."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from twinlens.executors.fidelity.answer import Answer, choice_of, from_completion
from twinlens.executors.fidelity.scored import Scored, Unusable, from_prompt_logprobs
from twinlens.executors.fidelity.sglang import from_input_logprobs, generate_request, meta_info_of
from twinlens.record.foreign_text import in_one_line

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
