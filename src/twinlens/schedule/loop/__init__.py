"""Open and closed loops: each schedule says when its next request is due."""
