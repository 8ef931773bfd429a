"""The verbs, as typed functions: what `import twinlens as tl` offers and what the command line calls."""
