"""Documents of judgements: claims, packs, self-tests, and which runs answer a question."""
