"""Proof: the diagnosis tried by measurement, on saturated programs and by the change that would prove it wrong."""
