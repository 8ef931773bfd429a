"""Tuning within a bound: settings that may be varied, a space and a budget, the ledger of trials, and the proof."""
