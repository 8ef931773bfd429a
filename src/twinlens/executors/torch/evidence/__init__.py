"""Evidence about the embedded executor: formats, kernels, FLOP, bytes."""
