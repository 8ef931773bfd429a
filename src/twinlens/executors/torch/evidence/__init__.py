"""Evidence of what torch really ran: formats, kernels, FLOP, bytes."""
