"""The content of requests: lengths, prompts, shared prefixes, words."""
