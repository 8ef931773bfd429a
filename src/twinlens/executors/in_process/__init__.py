"""Parts that all engines in this process share: batches, exports, data, fidelity, ceilings, format checks."""
