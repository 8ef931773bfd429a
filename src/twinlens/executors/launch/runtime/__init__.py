"""One file per runtime that Twinlens can start."""
