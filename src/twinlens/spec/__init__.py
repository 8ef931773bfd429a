"""Specs: what was asked, as frozen and strict values."""
