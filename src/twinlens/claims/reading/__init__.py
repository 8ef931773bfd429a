"""Readings of a claim: the ways in which a sentence can name a relation, by what it is about."""
