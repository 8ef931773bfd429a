"""Pure theory: FLOP, bytes, memory, roofline."""
