"""Fidelity over HTTP: log probabilities or greedy answers of a server, beside those of a reference."""
