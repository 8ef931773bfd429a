"""Logs of trainers that somebody else started: Megatron-LM, torchtitan and NeMo, their lines read into rows."""
