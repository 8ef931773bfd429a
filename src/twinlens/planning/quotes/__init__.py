"""Quotes: two offers brought to the same work, and the axes on which they are not equivalent."""
