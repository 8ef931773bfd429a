"""Sentences on plans, one file for what they are about."""
