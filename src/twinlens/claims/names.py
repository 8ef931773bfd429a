"""Names that a claim may use: models, devices, formats, and the words that say what a figure is about."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from twinlens.spec.device import list_devices, load_device
from twinlens.spec.model.reference import list_models
from twinlens.theory.weight_format import WEIGHT_FORMATS

USUAL = {8e9: "llama-3.1-8b", 70e9: "llama-3.1-70b", 405e9: "llama-3.1-405b", 671e9: "deepseek-v3"}
"""The model that a bare size is read as, where its layers are needed; other sizes have no usual one."""
MODELS = {
    "gpt-3": "gpt3-175b",
    "gpt 3 175b": "gpt3-175b",
    "deepseek r1": "deepseek-v3",
    "qwen2.5 72b": "qwen2-72b",
    "mixtral": "mixtral-8x7b",
    "llama 2 chat 70b": "llama-2-70b",
}
"""Other names of models of the catalogue, or of models with the same shape."""
DEVICES = {
    "a100": "a100-sxm-80gb", "h100": "h100-sxm-80gb", "h200": "h200-sxm-141gb", "b200": "b200-sxm-180gb",
    "b300": "b300-sxm-288gb", "gh200": "gh200-96gb", "h20": "h20-96gb", "rtx 3090": "rtx-3090",
    "rtx 4090": "rtx-4090", "rtx 5090": "rtx-5090", "a6000": "rtx-a6000",
    "rtx 6000 ada": "rtx-6000-ada", "rtx pro 6000": "rtx-pro-6000-blackwell", "pro 6000": "rtx-pro-6000-blackwell",
    "v100": "v100-sxm2-32gb", "3090": "rtx-3090", "4090": "rtx-4090", "5090": "rtx-5090", "3080": "rtx-3080",
    "4080": "rtx-4080", "mi250": "mi250x", "tpu v5 e": "tpu-v5e", "strix halo": "ryzen-ai-max-395",
    "dgx spark": "gb10",
}  # fmt: skip
"""Short names, and the device of the catalogue that each is read as."""
FORMATS: dict[str, tuple[str, ...]] = {
    "fp32": ("fp32",), "bf16": ("bf16",), "fp16": ("fp16",), "16-bit": ("fp16",), "fp8": ("fp8", "8-bit"),
    "int8": ("int8", "8-bit"),
    "8-bit": ("int8", "8-bit", "q8_0"), "w8a8": ("int8", "8-bit"), "half precision": ("fp16",),
    "single precision": ("fp32",),
    "float16": ("fp16",), "bfloat16": ("bf16",), "32-bit": ("fp32",), "float32": ("fp32",),
    "q8": ("q8_0", "int8", "8-bit"), "q8_0": ("q8_0",), "q6_k": ("q6_k",),
    "q5_k_m": ("q5_k_m",), "q4_k_m": ("q4_k_m",), "q4_0": ("q4_0",), "q4": ("4-bit", "nvfp4", "q4_0", "q4_k_m"),
    "4-bit": ("4-bit", "nvfp4", "q4_0", "q4_k_m"), "int4": ("4-bit", "awq-int4-g128", "int4-g32"),
    "w4a16": ("4-bit", "awq-int4-g128"), "awq": ("awq-int4-g128",), "gptq": ("gptq-int4-g128",),
    "fp4": ("4-bit", "mxfp4", "nvfp4"), "nvfp4": ("nvfp4",), "mxfp4": ("mxfp4", "mxfp4-experts"),
    "nf4": ("nf4-double", "nf4"), "unquantised": ("bf16",), "unquantized": ("bf16",),
    "qlora": ("nf4-double",),
}  # fmt: skip
"""Formats as people write them, and what each may mean; "4-bit" is four bits and nothing else, no scales."""
KV_BYTES = {
    word: WEIGHT_FORMATS[name].matrices / 8
    for word, name in {
        "fp32": "fp32", "bf16": "bf16", "fp16": "fp16", "16-bit": "fp16", "fp8": "fp8", "int8": "int8",
        "8-bit": "int8", "q8_0": "q8_0", "nvfp4": "nvfp4", "q4_0": "q4_0",
    }.items()
} | dict.fromkeys(("int4", "fp4", "q4", "4-bit"), 0.5)  # fmt: skip
"""Bytes per element of the cache; four bits and no scales where the word names no scales."""


def model_at(text: str, at: int) -> tuple[str, int] | None:
    """A model of the catalogue at a place of a text, however its name is written, and where its name ends."""
    owner = _OWNER.match(text, at)
    found = _match(_models(), text, owner.end() if owner else at)
    return (found[0], found[1] + text.startswith("-", found[1])) if found else None


def device_at(text: str, at: int) -> tuple[str, int] | None:
    """A device of the catalogue, or a short name for one: with its maker, board and memory as they are written."""
    maker = _MAKER.match(text, at)
    found = _match(_devices(), text, maker.end() if maker else at)
    if found is None:
        return None
    name, end = found
    board = _BOARD.match(text, end)
    if board is None or not board[0].strip(" -("):
        return found
    words = {word.lower() for word in re.findall(r"[A-Za-z]+|\d+", board[0])}
    whole = DEVICES.get(name, name)
    alike = [each for each in list_devices() if each.split("-")[0] == whole.split("-")[0]]
    size = next((word for word in words if word.isdigit() and int(word) >= 8), None)
    wanted = [
        each
        for each in alike
        if (size is None or round(load_device(each).memory_bytes / 1e9) == int(size))
        and all(word in each for word in words & {"pcie", "nvl", "sxm"})
    ]
    if not wanted:
        return found
    usual = whole if whole in wanted else wanted[-1]
    return usual, board.end()


def format_at(text: str, at: int) -> tuple[str, int] | None:
    """A format as people write it."""
    return _match(_formats(), text, at)


def link_at(text: str, at: int) -> tuple[str, int] | None:
    """A link between devices, with its generation: "NVLink 4", "PCIe Gen5 x16"; "nvlink" where none is said."""
    found = _LINK.match(text, at)
    if found is None:
        port = re.compile(r"(?i:(?:infiniband )?(hdr|ndr|xdr)(?: infiniband)?)(?![\w-])").match(text, at)
        return (f"infiniband-{port[1].lower()}", port.end()) if port else None
    kind = "nvlink" if found["kind"].lower().startswith("nv") else "pcie"
    if kind == "pcie" and not found["n"]:
        return None
    return f"{kind}{found['n'] or ''}", found.end()


_OWNER = re.compile(r"[\w.-]+/(?=[A-Za-z][\w.-]*\d)")
"""The owner of a model on a hub: "meta-llama/"."""
_KIND = r"(?:[ -](?:instruct|it|chat|hf|base|preview|distill|v\d(?:\.\d)?))*"
_MAKER = re.compile(r"(?i:(?:nvidia|geforce|amd|instinct|apple|google|intel|tesla)[ -])+")
_BOARD = re.compile(r"(?i:[ -]\(?(?:sxm\d?|pcie|nvl|\d{2,3} ?GB)\)?(?![\w/]))+")
_LINK = re.compile(
    r"(?i:(?P<kind>NVLink|PCI-?e|PCI Express)(?:[ -]?(?:gen)?[ -]?(?P<n>[3-6])(?:\.0)?)?(?: ?x16)?(?: links?)?)"
    r"(?![\w-])"
)


@dataclass(frozen=True, slots=True)
class Names:
    """Names by their first letter, the longest first, what each stands for, and what may follow one."""

    by_letter: Mapping[str, tuple[tuple[str, str], ...]]
    ends: re.Pattern[str]


def _names(meant: Mapping[str, str], ends: str) -> Names:
    by_letter: dict[str, list[tuple[str, str]]] = {}
    for name in sorted(meant, key=len, reverse=True):
        by_letter.setdefault(name[0], []).append((name, meant[name]))
    return Names({letter: tuple(each) for letter, each in by_letter.items()}, re.compile(f"(?i:{ends})"))


def _match(names: Names, text: str, at: int) -> tuple[str, int] | None:
    for name, meant in names.by_letter.get(text[at : at + 1].lower(), ()):
        end = _end_of(name, text, at)
        if end is not None and (rest := names.ends.match(text, end)) is not None:
            return meant, rest.end()
    return None


def _end_of(name: str, text: str, at: int) -> int | None:
    """Where a name ends that a text has here: hyphens and blanks may be left out, and a point may be any sign."""
    for letter in name:
        own = text[at : at + 1].lower()
        if letter in "- ":
            at += own in ("-", " ")
        elif own and (letter in (own, ".")):
            at += 1
        else:
            return None
    return at


@lru_cache(maxsize=1)
def _models() -> Names:
    short = {name: name for name in list_models() if any(letter.isdigit() for letter in name)}  # not "small"
    families = ("llama", "llama 3", "llama 3.1", "llama 3.3", "llama3", "llama3.1", "meta llama 3", "meta llama 3.1")
    usual = {f"{family} {size}": f"llama-3.1-{size}" for family in families for size in ("8b", "70b", "405b")}
    return _names(usual | MODELS | short, _KIND + r"(?!\w)(?!-(?!(?:[fb]p?\d|int\d|awq|gptq|nvfp4|q\d|\dbit)))")


@lru_cache(maxsize=1)
def _devices() -> Names:
    return _names(
        {name: name for name in list_devices()} | {name: name for name in DEVICES},
        r"s?(?!\w)(?!-(?!\d\d|sxm|pcie|nvl))",
    )


@lru_cache(maxsize=1)
def _formats() -> Names:
    return _names({name: name for name in FORMATS}, r"s?(?! per| ?/ ?(?:weight|param)| adam)(?![\w-])")


# Words of a claim: topics, which say what a figure is about, and fillers, which say nothing.

_TOPICS = (
    (r"(?:before|without|excluding|not (?:counting|including)|w/o|plus|ignoring) (?:any |the )?activations?|"
     r"mixed[ -]precision", "of-states"),
    (r"(?:without|no|w/o) (?:structured )?sparsity|dense", "dense"), (r"(?:structured |2:4 )*(?:sparsity|sparse)",
    "sparse"),
    (r"without|w/o|except(?:ing)?|exclud(?:es?|ing)|minus|other than|unless|offload(?:s|ed|ing)?|(?:over|under)"
     r"-?(?:clock|volt)(?:s|ed|ing)?|throttl(?:es?|ed|ing)|power[ -]?(?:capped|limited)|prun(?:ed?|ing)|distill?ed|"
     r"mig|slices?|(?<=\d )laptop|laptop(?= (?:(?-i:[A-Z])|gpu|\d))|mobile|swap(?:s|ped|ping)?|spill(?:s|ed|ing)?|"
     r"(?:(?<=\d[Kk] )|(?<=context )|(?<=\d tokens ))shared?(?= (?:by|among|between|across))|"
     r"shared?(?! (?:by|among|between|across|about|~|\$?\d|an?\b|the\b))|sharing|partition(?:s|ed|ing)?|"
     r"compress(?:ed|ing|ion)?|evict(?:s|ed|ing|ion)?|reus(?:es?|ed|ing)|disaggregated|(?:prefix|prompt)[ -]cach"
     r"(?:es?|ed|ing)|unlike|(?:pipeline|expert|data|sequence|context)[ -]parallel(?:ism)?|used to|system ram|derated?|"
     r"overlap(?:s|ped|ping)?|mha|oversubscri(?:bed|ption)|recomput(?:es?|ed|ing|ation)|"
     r"(?:activation|gradient) checkpoint(?:s|ed|ing)", "turns"),
    (r"(?:reduc|cut|lower|shr[aiu]nk|drop|f[ae]ll|gr[oe]w|increas|rais|ris|decreas|exceed|overshoot|short|miss|extend)"
     r"\w*(?=(?: \S+){0,9}? by (?:about |around |roughly |some |only |just |~)*\$?\d[\d.,]* ?(?:[KMGTP]i?B|m?s|tok|k?W|"
     r"seconds|dollars|watts|milliseconds)(?![A-Za-z]))", "turns"),
    (r"saves?|saved|saving|free[sd](?: up)?|freeing|adds?(?! up)|added|adding", "saves"),
    (r"bidirectional(?:ly)?|both (?:ways|directions)", "both-ways"),
    (r"(?:each|one|per|in one|in each) (?:way|direction)|unidirectional(?:ly)?", "one-way"),
    (r"8[ -]?bit adam(?:w)?|adamw?[ -]8[ -]?bit", "adamw-8bit"), (r"bf16 adamw?|pure[ -]bf16 adamw?", "adamw-bf16"),
    (r"adamw?(?: optimi[sz]er)?", "adamw"), (r"sgd", "sgd"), (r"lion", "lion"), (r"muon", "muon"),
    (r"(?:fp32 )?master(?: weights| copy)?", "master"), (r"gradients?|grads?", "gradients"),
    (r"optimi[sz]er states?|optimi[sz]ers?|states?|moments?", "states"),
    (r"kv[ -]?caches?|kv|caches?", "kv"), (r"mbu|bandwidth utili[sz]ation", "mbu"),
    (r"per[ -](?:layer)", "per-layer"), (r"per[ -]token|(?:for )?each token",
    "per-token"),
    (r"(?:is |it's |are )?(?:not true|false|untrue|a myth)(?: that)?", "not"), (r"chinchilla(?:[ -]optimal)?",
    "chinchilla"),
    (r"forward(?: pass)?", "forward"), (r"ridge(?: point)?", "ridge"), (r"zero-?3|fsdp|fully sharded", "sharded"),
    (r"checkpoints?", "checkpoint"), (r"tdp|power draw|thermal design power", "tdp"),
    (r"compute[ -]bound", "compute-bound"), (r"end[ -]to[ -]end|e2e|total latency|total time", "end-to-end"),
    (r"dgx|hgx", "node-of-8"), (r"(?:per|an?) year|yearly|annually", "year"), (r"(?:per|an?|each) month|monthly",
    "month"),
    (r"(?:per|an?|each) day|daily", "day"), (r"(?:per|an?|each) hour|hourly|/hr?", "hour"),
    (r"(?:per|an?|each) week|weekly", "week"),
    (r"tpot|itl|inter[ -]token latency|time per (?:output )?token", "tpot"),
    (r"pre-?train(?:ing|ed|s)?|(?:full(?:[ -]parameter)?[ -])?fine-?tun(?:e|es|ed|ing)|train(?:s|ed|ing)?|full ft|ft|"
     r"full-parameter",
    "training"),
    (r"all-?reduc(?:es?|ed|ing|tion)", "all-reduce"), (r"tensor[ -]parallel(?:ism)?", "all-reduce"),
    (r"lora(?: adapters?)?", "lora"), (r"acceptance(?: rate)?|accepted", "acceptance"),
    (r"speculative(?: decoding)?|speculation|eagle(?:-?[23])?|medusa", "speculation"),
    (r"left(?: over)?|to spare|remain(?:s|ing)?", "left"), (r"inferenc(?:e|ing)|infer(?:s|red|ring)?", "inference"),
    (r"prefill(?:s|ed|ing)?|ttft|time to first token", "prefill"), (r"decod(?:e|es|ing)|generat(?:e|es|ion|ing)",
    "decode"),
    (r"(?:at |under )?full load", "peak"),
    (r"fits?|holds?|loads?|hold|room|headroom|enough|sufficient|suffices?", "fits"),
    (r"too (?:big|large|much|heavy|fat|wide|small|little|few)", "too"),
    (r"cannot|can't|impossible|unable|nothing|nowhere|"
          r"(?:does|do|is|are|wo|would|did|was|were|has|have|had|could|should|must)(?: not|n't)|not|"
          r"never|neither|"
          r"nobody|no one|none|no|nor|hardly|barely|lacks?|fails?|nicht|kein", "not"),
    (r"(?:per|each|every)[ -](?:user|stream|request)|each|hard ceiling|ceiling", "each"),
    (r"single[ -](?:user|stream)", "single"),
    (r"(?:per|each|every)[ -](?:gpu|device|card|accelerator|chip|rank|shard)|shards?", "per-device"),
    (r"(?:in )?total|altogether|combined|aggregated?|together|in sum", "of-all"),
    (r"mfu", "mfu"), (r"energy|electricity", "energy"), (r"amorti[sz]ed|amorti[sz]ation", "amortised"),
    (r"break[ -]?even|pa(?:ys?|id) (?:back|off)|pays? for (?:itself|themselves)|payback", "break-even"),
    (r"idle|utili[sz]ation|sustained", "share"), (r"peak", "peak"), (r"half(?: of| the size of)?", "half"),
    (r"quarter(?: of)?", "quarter"), (r"weights?(?:-only)?", "weights"),
    (r"cop(?:y|ies|ied|ying)|mov(?:es?|ed|ing)|transfer(?:s|red|ring)?|send(?:s|ing)?|download(?:s|ed|ing)?|load(?:s|ed|ing)|"
     r"read(?:s|ing)?|stream(?:s|ed|ing)|networks?|ethernet|nics?", "transfer"), (r"bandwidth|bw", "bandwidth"),
    (r"instead of|rather than|versus|vs\.?|compared (?:to|with)|against|(?:down|up) from", "ratio"),
    (r"faster|slower|speed-?ups?|quicker|bigger|larger|smaller|more|higher|greater|longer", "ratio"),
    (r"less|fewer|lower|shorter|cheaper|worse|better", "less"),
    (r"gpus?|vram|(?:hbm|g?ddr|lpddr)\d?[xe]?|memory|servers?|machines?|cards?|nodes?", "machine"),
    (r"batch(?:ed|es)?|contexts?|users?|tokens?|parameters?|params|models?|throughput|latency", "named"),
)  # fmt: skip


@lru_cache(maxsize=1)
def _topics() -> re.Pattern[str]:
    """One pattern of all topics, a group for each: the first that matches is meant."""
    return re.compile(rf"(?i:(?:{'|'.join(f'({pattern})' for pattern, _ in _TOPICS)})(?![\w-]))")


def topic_at(text: str, at: int) -> tuple[str, int] | None:
    """Words that say what a figure is about."""
    found = _topics().match(text, at)
    return None if found is None or found.lastindex is None else (_TOPICS[found.lastindex - 1][1], found.end())


FILLERS = frozenset(Path(__file__).with_name("fillers.txt").read_text(encoding="utf-8").split())
"""Words that change no figure: they join the others, or say who, where, or with how much surprise."""
_ENDS = ("s", "es", "ed", "d", "ing", "ly")
HARMLESS = frozenset(
    {"named", "machine", "weights", "bandwidth", "dense", "peak", "tdp", "needs", "transfer", "of-all", "inference"}
)
"""Topics that only say what a figure is about; any other that no answer used may turn the claim into another one."""
ABOUT = {
    "mfu": "training mfu of-states", "training-time": "training mfu", "training-cost": "training mfu",
    "device-time": "training mfu",
    "training-flop": "training", "tokens-time": "decode training each fits prefill checkpoint",
    "transfer-time": "fits checkpoint", "mbu": "decode mbu",
    "tokens": "hour day month decode", "tokens-per-parameter": "chinchilla training",
    "training-rate": "training mfu", "chinchilla": "training",
    "tokens-per-step": "training speculation acceptance each", "flop-per-token": "forward decode per-token training",
    "ridge": "ridge compute-bound fits prefill decode", "ridge-batch": "ridge compute-bound decode", "energy": "energy",
    "energy-cost": "energy",
    "energy-per-token": "energy", "tokens-per-joule": "energy", "energy-share": "energy share ratio",
    "decode-rate": "all-reduce",
    "stream-rate": "tpot decode each", "bill": "amortised", "price-per-hour": "amortised share hour",
    "break-even": "break-even ratio hour", "cost-per-request": "training", "all-reduce-share": "all-reduce mfu",
    "all-reduce-time": "all-reduce gradients", "ratio": "ratio less saves states weights fits",
    "speculation": "speculation acceptance ratio each",
    "tokens-per-pass": "speculation acceptance each", "total-rate": "each", "total": "each",
    "model": "per-token",
    "link": "per-device", "in-flight": "each", "steps": "training each",
    "training-memory": "training of-states", "prefill-rate": "prefill", "ttft": "prefill",
}  # fmt: skip
"""Topics that each figure is about: beside it they change nothing."""
MAKERS = frozenset({
    "nvidia", "amd", "meta", "google", "openai", "microsoft", "apple", "intel", "vllm", "sglang", "tensorrt-llm",
    "trt-llm", "tgi", "llama.cpp", "ollama", "pytorch", "cuda", "rocm", "deepspeed", "megatron", "aws", "azure", "gcp",
    "tesla", "geforce", "instinct", "ampere", "hopper", "blackwell", "ada", "mistral", "alibaba", "deepseek", "llm",
    "llms", "ai", "ml", "inc", "i", "gqa", "mla", "moe", "eur", "usd", "api", "b", "mm", "hugging", "face",
    "lovelace", "amazon", "lambda", "coreweave", "runpod",
})  # fmt: skip
"""Names that change no figure; another name that is not known may be part of one that is ("RTX 4090 Laptop")."""


def is_filler(word: str) -> bool:
    """Whether a word in lower case changes no figure, also inflected ("produces") or joined ("memory-bandwidth")."""
    stems = {word, *(word.removesuffix(end) for end in _ENDS), word.removesuffix("ing") + "e", word[:-3] + "y"}
    return any(each in FILLERS and (each == word or len(each) > 2) for each in stems) or (
        "-" in word and all(map(is_filler, word.split("-")))
    )
