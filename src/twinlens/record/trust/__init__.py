"""Checks on what is read back: checksums of rows, types of values, text that somebody else wrote."""
