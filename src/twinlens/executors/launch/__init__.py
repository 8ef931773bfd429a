"""Servers that Twinlens starts itself: one recipe per runtime, one life cycle for all of them."""
