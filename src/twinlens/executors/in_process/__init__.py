"""Parts that every engine in this process shares, in numpy: prompts, fidelity, format checks, ceilings."""
