"""Proof: the diagnosis tried by measurement, on programs that saturate one resource each."""
