"""One recipe per runtime that Twinlens can start."""
