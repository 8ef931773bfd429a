"""Relaying: one request to one backend after another, and its answer byte by byte to the client."""
