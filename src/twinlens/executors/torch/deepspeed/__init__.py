"""DeepSpeed: ZeRO 0 to 3 in several processes, behind the orders of parallel training."""
