"""Parallel training: one model trained by several processes of this machine, started through torchrun."""
