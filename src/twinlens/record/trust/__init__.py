"""Checks on what is read back: checksums of rows, and text that somebody else wrote."""
