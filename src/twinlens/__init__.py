"""Twinlens: two lenses on AI performance, training and inference, never averaged."""

__version__ = "0.1.0"
