"""Words of a claim: topics, which say what a figure is about, and fillers, which say nothing."""

from __future__ import annotations

import re

_TOPICS = (
    (r"bidirectional(?:ly)?|both (?:ways|directions)", "both-ways"),
    (r"(?:each|one|per|in one|in each) (?:way|direction)|unidirectional(?:ly)?", "one-way"),
    (r"8[ -]?bit adam(?:w)?|adamw?[ -]8[ -]?bit", "adamw-8bit"), (r"bf16 adamw?|pure[ -]bf16 adamw?", "adamw-bf16"),
    (r"adamw?(?: optimi[sz]er)?", "adamw"), (r"sgd", "sgd"), (r"lion", "lion"), (r"muon", "muon"),
    (r"(?:fp32 )?master(?: weights| copy)?", "master"), (r"gradients?|grads?", "gradients"),
    (r"optimi[sz]er states?|optimi[sz]ers?|states?|moments?", "states"),
    (r"kv[ -]?caches?|kv", "kv"), (r"per[ -](?:layer)", "per-layer"),
    (r"pre-?train(?:ing|ed|s)?|fine-?tun(?:e|es|ed|ing)|train(?:s|ed|ing)?|full ft|ft", "training"),
    (r"all-?reduces?", "all-reduce"), (r"tensor[ -]parallel(?:ism)?", "all-reduce"),
    (r"lora(?: adapters?)?", "lora"), (r"acceptance(?: rate)?|accepted", "acceptance"),
    (r"speculative(?: decoding)?|speculation|eagle(?:-?[23])?|medusa", "speculation"),
    (r"prefills?|ttft", "prefill"), (r"decod(?:e|es|ing)|generat(?:e|es|ion|ing)", "decode"),
    (r"fits?|holds?|loads?|room|headroom|enough|sufficient|suffices?", "fits"),
    (r"cannot|can't|does ?n[o']t|doesn't|not", "not"),
    (r"per[ -]user|each|per stream|per request|single[ -](?:user|stream)|hard ceiling|ceiling", "each"),
    (r"mfu", "mfu"), (r"energy|electricity", "energy"), (r"amorti[sz]ed|amorti[sz]ation", "amortised"),
    (r"break[ -]?even|pays? for (?:itself|themselves)|payback", "break-even"),
    (r"idle|utili[sz]ation|sustained", "share"), (r"peak", "peak"), (r"half(?: of| the size of)?", "half"),
    (r"quarter(?: of)?", "quarter"), (r"weights?", "weights"), (r"bandwidth", "bandwidth"),
    (r"faster|slower|speed-?up|quicker|bigger|larger|smaller|instead of|versus|vs\.?|against", "ratio"),
    (r"gpus?|vram|hbm|memory|servers?|machines?|cards?|nodes?", "machine"),
    (r"batch(?:ed|es)?|contexts?|users?|tokens?|parameters?|params|models?|throughput|latency", "named"),
)  # fmt: skip
TOPICS = tuple((re.compile(rf"(?i:{pattern})(?![\w-])"), topic) for pattern, topic in _TOPICS)
"""Words that say what a figure is about, in the order in which they are tried."""
FILLERS = frozenset({
    "&", "+", "-", "->", ".", "/", "=", "a", "about", "after", "all", "an", "and", "are", "as", "at", "b", "be",
    "before", "between", "both", "by", "can", "comes", "cost", "costs", "decoder", "dense", "did", "do", "does",
    "during", "equals", "exactly", "for", "from", "full", "get", "gets", "give", "gives", "has", "have", "holds",
    "i", "in", "is", "it", "its", "just", "leaves", "llm", "make", "makes", "mean", "means", "must", "need",
    "needed", "needs", "of", "ok", "on", "one", "only", "only-a", "or", "our", "over", "per", "plus", "reach",
    "reaches", "required", "requires", "run", "running", "runs", "same", "should", "size", "so", "standard", "step",
    "take", "takes", "than", "that", "the", "them", "then", "there", "this", "time", "to", "took", "total", "two",
    "under", "up", "use", "uses", "using", "via", "we", "when", "which", "while", "will", "with", "works", "would",
    "x", "you", "~", "–", "—", "→"
})  # fmt: skip
"""Words that join the others."""
