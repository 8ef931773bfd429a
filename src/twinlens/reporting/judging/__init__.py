"""Documents of judgements: claims, packs, self-tests, diagnoses, checks, probes, and which runs answer a question."""
