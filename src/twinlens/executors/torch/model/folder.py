"""A model folder for servers: random weights of a config, and a tokenizer trained on the words prompts are made of.

Needs torch, transformers and tokenizers; run in a process of its own by launch/folder.py.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from twinlens.executors.torch.model.build import build_model
from twinlens.schedule.prompt import WORDS
from twinlens.spec.model.any_model import any_model

SPECIALS = ("<|pad|>", "<|begin|>", "<|end|>", "<|system|>", "<|user|>", "<|assistant|>")
_BYTES = 256
_UNLIMITED = 10**9  # positions of a model that has no limit of its own
_TEMPLATE = (
    "{% for message in messages %}<|{{ message['role'] }}|>{{ message['content'] }}{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


def write_folder(model: str, folder: Path, seed: int) -> None:
    """config.json, model.safetensors (bf16: random values are as good, and every precision gets the same), tokenizer.

    Random weights have no end of a sequence to predict, so none is named: answers have the length asked for. The output
    rows of entries that are no text alone (specials, halves of characters) are zero, so that greedy answers, whose
    largest logit is above 0, stream a piece of text for every token.
    """
    import torch
    import transformers

    ref = any_model(model)
    built: Any = build_model(ref, "sdpa", seed, torch.device("cpu"), torch.bfloat16)
    vocabulary = int(built.config.vocab_size)
    plain = byte_level(vocabulary)
    with torch.no_grad():
        built.get_output_embeddings().weight[_no_text(plain, vocabulary)] = 0
    tokenizer = _for_servers(plain, int(built.config.max_position_embeddings))
    built.config.bos_token_id, built.config.pad_token_id, built.config.eos_token_id = 1, 0, None
    built.generation_config = transformers.GenerationConfig(bos_token_id=1, pad_token_id=0, do_sample=False)
    built.save_pretrained(folder, safe_serialization=True)
    tokenizer.save_pretrained(folder)


def save_with_tokenizer(model: Any, folder: Path) -> None:
    """Weights that were trained here from a config, as a folder that a server can load too.

    Texts of the synthetic language are the lowest ids, so these are visible characters, and the specials are the
    highest, which nothing was trained to answer with.
    """
    import transformers

    vocabulary, count = int(model.config.vocab_size), len(SPECIALS)
    pad, begin, end = range(vocabulary - count, vocabulary - count + 3)
    model.config.pad_token_id, model.config.bos_token_id, model.config.eos_token_id = pad, begin, end
    model.generation_config = transformers.GenerationConfig(
        pad_token_id=pad, bos_token_id=begin, eos_token_id=end, do_sample=False
    )
    model.save_pretrained(folder, safe_serialization=True)
    said = json.loads(byte_level(vocabulary).to_str())
    entries = said["model"]["vocab"]
    said["model"]["vocab"] = {text: (number - count) % vocabulary for text, number in entries.items()}
    for each in said["added_tokens"]:
        each["id"] = (each["id"] - count) % vocabulary
    tokenizer = Tokenizer.from_str(json.dumps(said))
    positions = int(getattr(model.config, "max_position_embeddings", 0) or _UNLIMITED)
    _for_servers(tokenizer, positions).save_pretrained(folder)


def _for_servers(tokenizer: Tokenizer, positions: int) -> Any:
    import transformers

    whole = transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=SPECIALS[0],
        bos_token=SPECIALS[1],
        eos_token=SPECIALS[2],
        additional_special_tokens=list(SPECIALS[3:]),
        model_max_length=positions,
        clean_up_tokenization_spaces=False,
    )
    whole.chat_template = _TEMPLATE
    return whole


def byte_level(vocabulary: int) -> Tokenizer:
    """A byte-level BPE of exactly `vocabulary` entries in which every word of the synthetic prompts is one token.

    Entries that no text can reach fill the rest: a model may still answer with them, and they are visible text. Where
    the vocabulary has no room for all bytes, those of the words alone are in it, and other characters are dropped.
    """
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    has_room = vocabulary >= _BYTES + len(SPECIALS)
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=list(SPECIALS),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet() if has_room else [],
        show_progress=False,
    )
    tokenizer.train_from_iterator([f"{word} {word}" for word in WORDS], trainer)
    plain = json.loads(tokenizer.to_str())
    entries = plain["model"]["vocab"]
    for number in range(len(entries), vocabulary):
        entries[f"<unused{number}>"] = number
    return Tokenizer.from_str(json.dumps(plain))


def _no_text(tokenizer: Tokenizer, vocabulary: int) -> list[int]:
    texts = tokenizer.decode_batch([[number] for number in range(vocabulary)])
    return [number for number, text in enumerate(texts) if not text or "\ufffd" in text]


def main() -> None:
    """`{"model": …, "folder": …, "seed": …}` on the input."""
    asked = json.load(sys.stdin)
    write_folder(asked["model"], Path(asked["folder"]), int(asked["seed"]))
