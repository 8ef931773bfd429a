"""Requests over HTTP whose answer comes in one piece (vectors, scores, classes): checked and recorded."""
