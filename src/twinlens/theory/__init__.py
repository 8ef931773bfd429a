"""Pure theory: FLOP, bytes, memory, roofline, collectives, speculative decoding, energy; of scalars or arrays."""
