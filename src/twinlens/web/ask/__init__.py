"""Asking in a browser: forms made of questions, plans, claims, comparisons, words, and the batching lab."""
