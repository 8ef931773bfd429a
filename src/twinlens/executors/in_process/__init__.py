"""Parts that all engines in this process share: data, fidelity, ceilings, format checks."""
