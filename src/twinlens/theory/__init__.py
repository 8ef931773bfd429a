"""Pure physics: FLOP, bytes, memory, roofline. Reads no clock and no host."""
