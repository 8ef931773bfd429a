"""Logs of trainers (Megatron-LM, torchtitan, NeMo): lines read into rows, whole or while they are written."""
