"""Words of a claim: topics, which say what a figure is about, and fillers, which say nothing."""

from __future__ import annotations

import re
from importlib.resources import files

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
TOPICS = tuple((re.compile(rf"(?i:{pattern})(?![\w-])"), topic) for pattern, topic in _TOPICS)
"""Words that say what a figure is about, in the order in which they are tried."""
FILLERS = frozenset((files("twinlens.claims") / "fillers.txt").read_text(encoding="utf-8").split())
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
