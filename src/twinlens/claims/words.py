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
    (r"(?:without|no|w/o) (?:structured )?sparsity|dense", "dense"), (r"(?:structured |2:4 )?(?:sparsity|sparse)",
    "sparse"),
    (r"kv[ -]?caches?|kv|caches", "kv"), (r"per[ -](?:layer)", "per-layer"), (r"per[ -]token|(?:for )?each token",
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
    (r"pre-?train(?:ing|ed|s)?|fine-?tun(?:e|es|ed|ing)|train(?:s|ed|ing)?|full ft|ft", "training"),
    (r"all-?reduces?", "all-reduce"), (r"tensor[ -]parallel(?:ism)?", "all-reduce"),
    (r"lora(?: adapters?)?", "lora"), (r"acceptance(?: rate)?|accepted", "acceptance"),
    (r"speculative(?: decoding)?|speculation|eagle(?:-?[23])?|medusa", "speculation"),
    (r"prefill(?:s|ed|ing)?|ttft|time to first token", "prefill"), (r"decod(?:e|es|ing)|generat(?:e|es|ion|ing)",
    "decode"),
    (r"fits?|holds?|loads?|hold|room|headroom|enough|sufficient|suffices?", "fits"),
    (r"cannot|can't|(?:does|do|is|are|wo|would|did) ?n[o']t|doesn't|don't|isn't|aren't|won't|not|never|neither|"
          r"nobody|no one|none", "not"),
    (r"per[ -]user|each|per stream|per request|hard ceiling|ceiling", "each"), (r"single[ -](?:user|stream)", "single"),
    (r"per[ -](?:gpu|device|card|accelerator|chip)", "per-device"),
    (r"mfu", "mfu"), (r"energy|electricity", "energy"), (r"amorti[sz]ed|amorti[sz]ation", "amortised"),
    (r"break[ -]?even|pays? for (?:itself|themselves)|payback", "break-even"),
    (r"idle|utili[sz]ation|sustained", "share"), (r"peak", "peak"), (r"half(?: of| the size of)?", "half"),
    (r"quarter(?: of)?", "quarter"), (r"weights?", "weights"), (r"bandwidth", "bandwidth"),
    (r"instead of|rather than|versus|vs\.?|compared (?:to|with)|against|(?:down|up) from", "ratio"),
    (r"faster|slower|speed-?up|quicker|bigger|larger|smaller|instead of|versus|vs\.?|against", "ratio"),
    (r"gpus?|vram|hbm\d?e?|memory|servers?|machines?|cards?|nodes?", "machine"),
    (r"batch(?:ed|es)?|contexts?|users?|tokens?|parameters?|params|models?|throughput|latency", "named"),
)  # fmt: skip
TOPICS = tuple((re.compile(rf"(?i:{pattern})(?![\w-])"), topic) for pattern, topic in _TOPICS)
"""Words that say what a figure is about, in the order in which they are tried."""
FILLERS = frozenset({
    "&", "+", "-", "->", ".", "/", "=", "a", "about", "achieve", "achieved", "achieves", "across", "after", "all",
    "already", "also", "amount", "an", "and", "any", "approximately", "are", "around", "as", "at", "b", "be",
    "because", "been", "before", "between", "both", "by", "can", "comes", "cost", "costs", "decoder", "deliver",
    "delivers", "dense", "did", "do", "does", "doing", "during", "e.g", "each", "eg", "equals", "every", "exactly",
    "for", "from", "full", "generates", "get", "gets", "give", "gives", "hardware", "has", "have", "hence", "holds",
    "i", "i.e", "ie", "if", "in", "into", "is", "it", "its", "just", "least", "leaves", "length", "llm", "loading",
    "long", "make", "makes", "mean", "means", "most", "must", "my", "nearly", "need", "needed", "needs", "nvidia",
    "of", "offers", "ok", "on", "one", "only", "only-a", "or", "our", "over", "peaks", "per", "plus", "practically",
    "precision", "processed", "processes", "producing", "provides", "quantisation", "quantised", "quantization",
    "quantized", "reach", "reaches", "required", "requires", "roughly", "run", "running", "runs", "same", "serve",
    "serves", "serving", "should", "single", "size", "so", "standard", "step", "still", "take", "takes", "than",
    "thanks", "that", "that's", "the", "their", "them", "then", "theoretical", "theoretically", "there", "these",
    "this", "those", "thus", "time", "to", "took", "total", "two", "under", "up", "us", "use", "uses", "using",
    "via", "was", "we", "weigh", "weighs", "were", "what", "when", "which", "while", "who", "will", "with",
    "within", "without", "works", "would", "x", "you", "your", "~", "–", "—", "→",
})  # fmt: skip
"""Words that join the others."""
