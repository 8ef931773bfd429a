"""What every client is given: the same prompts, a tokenizer for those that must have one; and rows of any origin."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from twinlens.record.request import Requests
from twinlens.schedule.prompt import SyntheticWords

PROMPT_TOKENS, SEED = 128, 7
_TEMPLATE = "{% for message in messages %}{{ message['content'] }}{% endfor %}"
_CONFIG = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 32, "intermediate_size": 64,
           "num_hidden_layers": 1, "num_attention_heads": 2, "vocab_size": 5120}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Order:
    """One run of one client. `folder` holds what it needs and takes what it writes."""

    port: str
    streams: int
    requests: int
    tokens: int
    folder: Path

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


def prompts(count: int) -> list[str]:
    """The very prompts that ours sends: those of the schedule in ours.py."""
    words = SyntheticWords()
    return [words.cut((SEED, 0, number), PROMPT_TOKENS) for number in range(count)]


def write_material(folder: Path, requests: int, tokens: int) -> None:
    """Prompts in the shapes the peers read, and a tokenizer trained on them."""
    texts = prompts(requests)
    write_lines(folder / "prompts.jsonl", [{"prompt": text, "output_tokens_count": tokens} for text in texts])
    write_lines(folder / "turns.jsonl", [{"text": text} for text in texts])
    if not (folder / "tokenizer").exists():
        _write_tokenizer(folder / "tokenizer", texts)


def write_lines(path: Path, lines: Sequence[dict[str, object]]) -> None:
    """JSON lines."""
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def _write_tokenizer(folder: Path, texts: list[str]) -> None:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    bare = Tokenizer(models.BPE())
    bare.pre_tokenizer, bare.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=5120, special_tokens=["<s>", "</s>"], initial_alphabet=alphabet, show_progress=False
    )
    bare.train_from_iterator(texts, trainer)
    whole = PreTrainedTokenizerFast(tokenizer_object=bare, bos_token="<s>", eos_token="</s>", pad_token="</s>")
    whole.chat_template = _TEMPLATE
    whole.save_pretrained(folder)
    (folder / "config.json").write_text(json.dumps(_CONFIG))


def requests_of(sent_ns: Sequence[int], chunk_ns: Sequence[np.ndarray], end_ns: Sequence[int],
                output_tokens: Sequence[int]) -> Requests:  # fmt: skip
    """Rows from times alone, intended when sent; what the variants need of them."""
    count = len(sent_ns)
    none = np.full(count, np.nan)
    sent, tokens = np.array(sent_ns, np.int64), np.array(output_tokens, np.int64)
    pooled = np.concatenate([np.asarray(times, np.int64) for times in chunk_ns])
    offsets = np.concatenate([[0], np.cumsum([len(times) for times in chunk_ns])])
    return Requests(
        group=np.arange(count), intended_ns=sent, sent_ns=sent, end_ns=np.array(end_ns, np.int64),
        input_tokens=np.full(count, PROMPT_TOKENS), output_tokens=tokens, outcome=np.full(count, "ok", object),
        offsets=offsets, chunk_ns=pooled, chunk_tokens=np.ones(len(pooled), np.int32),
        asked_tokens=tokens.astype(float), released_ns=none, session=none, turn=none, slice=none,
        reasoning_chunks=none,
    )  # fmt: skip
